"""`keyrail schema docs|export FILE`: print the keys that a policy knows, as Markdown or as JSON Schema."""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial

from proxy.cli.line import LineParser, policy_file
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy.schema_docs import schema_docs
from proxy.policy.schema_export import schema_export
from proxy.policy_yaml.errors import PolicyError

_INVALID = 2


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    """Add `schema` and its subcommands."""
    parser = verbs.add_parser("schema", help="the key schema of a policy", allow_abbrev=False)
    questions = parser.add_subparsers(dest="question", metavar="QUESTION", required=True, parser_class=LineParser)
    docs = questions.add_parser(
        "docs",
        help="print the schema of a policy as Markdown",
        allow_abbrev=False,
        description="Print the schema of a policy, with all that it includes, as Markdown: one table for each app.",
    )
    export = questions.add_parser(
        "export",
        help="print the schema of a policy as JSON Schema",
        allow_abbrev=False,
        description="Print the schema of a policy, with all that it includes, as JSON Schema: the tests of an "
        "application check its keys with it, without Keyrail.",
    )
    for parsed, written in ((docs, schema_docs), (export, _as_json)):
        parsed.add_argument("file", metavar="FILE", type=policy_file, help="a YAML file, or a packaged policy")
        parsed.set_defaults(run=partial(_print, written))


def _as_json(policy: Policy) -> str:
    return json.dumps(schema_export(policy), indent=2) + "\n"


def _print(written: Callable[[Policy], str], parsed: argparse.Namespace) -> int:
    try:
        policy = load_policy(parsed.file)
    except PolicyError as error:
        for problem in error.problems:
            print(f"keyrail: {problem}", file=sys.stderr)
        return _INVALID
    print(written(policy), end="")
    return 0
