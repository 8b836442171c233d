"""`keyrail report`: what enforced rules would break, for whom, and whom to ask."""

import argparse
import json
import sys
import time

from proxy.cli.evidence_source import SourceError, add_policy_option, add_source_options, source_of
from proxy.cli.line import LineParser
from proxy.cli.report_text import markdown, text
from proxy.server.evidence.report import Wanted, report


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "report",
        help="what would break if rules were enforced: for whom, how often, and whom to ask",
        allow_abbrev=False,
        description="Say for each team what its applications do that rules would refuse, out of how many commands.",
    )
    add_source_options(parser)
    add_policy_option(parser)
    parser.add_argument("--app", default="", help="only this application")
    parser.add_argument("--team", default="", help="only the applications of this team")
    parser.add_argument("--rule", default="", help="only this rule")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--md", action="store_true", help="print Markdown")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Print the report; return the exit status."""
    try:
        source = source_of(parsed)
    except SourceError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return error.status
    made = report(source.evidence, source.facts, time.time(), Wanted(parsed.app, parsed.team, parsed.rule))
    if parsed.json:
        print(json.dumps(made, indent=2))
    elif parsed.md:
        print(markdown(made))
    else:
        print(text(made))
    return 0
