"""`keyrail diff OLD NEW`: what another policy would change for the commands that were recorded."""

import argparse
import json
import sys
import time

from proxy.cli.diff_text import as_json, markdown, text
from proxy.cli.evidence_source import SourceError, add_source_options, evidence_of
from proxy.cli.line import LineParser, policy_file
from proxy.policy.load import load_policy
from proxy.policy_yaml.errors import PolicyError
from proxy.server.evidence.diff import diff

_FAILED, _INVALID = 1, 2
_FAIL_ON = ("newly-refused", "newly-rewritten")


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "diff",
        help="what another policy would change for the commands that were recorded",
        allow_abbrev=False,
        description="Judge all recorded commands under both policies, as if each rule that is not off were enforced, "
        "and say what changes, for whom, and how sure that is. Exit status: 0, 1 if --fail-on finds something or "
        "nothing is recorded, 2 if a policy is not valid.",
    )
    parser.add_argument("old", metavar="OLD", type=policy_file, help="a YAML file, or a packaged policy")
    parser.add_argument("new", metavar="NEW", type=policy_file, help="the policy that is to replace it")
    add_source_options(parser)
    parser.add_argument("--route", default="", help="only commands of this route")
    parser.add_argument("--app", default="", help="only this application")
    parser.add_argument(
        "--fail-on",
        metavar="CHANGE[,CHANGE]",
        type=_changes,
        default=(),
        help=f"exit with 1 if a rule that NEW enforces makes such a change: {', '.join(_FAIL_ON)}",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--md", action="store_true", help="print Markdown, for a pull request")
    parser.set_defaults(run=run)


def _changes(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    for each in found:
        if each not in _FAIL_ON:
            raise argparse.ArgumentTypeError(f"expected {' or '.join(_FAIL_ON)}, got {each!r}")
    return found


def run(parsed: argparse.Namespace) -> int:
    """Print the changes; return the exit status."""
    try:
        old, new = load_policy(parsed.old), load_policy(parsed.new)
        evidence = evidence_of(parsed)
    except PolicyError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return _INVALID
    except SourceError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return error.status
    if parsed.route:
        evidence.hours = {at: rows for at, rows in evidence.hours.items() if at[1] == parsed.route}
    found = diff(evidence, old, new, time.time(), parsed.app)
    if parsed.json:
        print(json.dumps(as_json(found), indent=2))
    else:
        print(markdown(found) if parsed.md else text(found))
    if not parsed.fail_on:
        return 0
    if not any(its.judged for its in found.coverage.values()):
        print("keyrail: --fail-on: no command is recorded, so nothing is known", file=sys.stderr)
        return _FAILED
    return _FAILED if found.hits(each.replace("-", " ") for each in parsed.fail_on) else 0
