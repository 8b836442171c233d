"""`keyrail schema docs FILE`: print the keys that a policy knows, as Markdown."""

import argparse
import sys

from proxy.cli.line import LineParser, policy_file
from proxy.policy.load import load_policy
from proxy.policy.schema_docs import schema_docs
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
    docs.add_argument("file", metavar="FILE", type=policy_file, help="a YAML file, or a packaged policy")
    docs.set_defaults(run=_print_docs)


def _print_docs(parsed: argparse.Namespace) -> int:
    try:
        policy = load_policy(parsed.file)
    except PolicyError as error:
        for problem in error.problems:
            print(f"keyrail: {problem}", file=sys.stderr)
        return _INVALID
    print(schema_docs(policy), end="")
    return 0
