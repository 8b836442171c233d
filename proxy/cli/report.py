"""`keyrail report`: what enforced rules would break, for whom, and whom to ask."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from proxy.cli.evidence_source import SourceError, add_policy_option, add_source_options, quotas_of, source_of
from proxy.cli.line import LineParser
from proxy.cli.report_text import markdown, text
from proxy.server.evidence.report import Wanted, report, unknown_name
from proxy.traffic.key_text import printable

_MISTAKE = 2


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
    form.add_argument("--html", metavar="FILE", type=Path, help="write one HTML file, which opens without a network")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Print the report; return the exit status."""
    try:
        source, quotas = source_of(parsed), quotas_of(parsed)
    except SourceError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return error.status
    wanted = Wanted(parsed.app, parsed.team, parsed.rule)
    if unknown := unknown_name(source.evidence, source.facts, wanted):
        print(f"keyrail: {printable(unknown)}", file=sys.stderr)
        return _MISTAKE
    made = report(source.evidence, source.facts, time.time(), wanted) | {"quotas": quotas}
    if parsed.json:
        print(json.dumps(made, indent=2))
    elif parsed.html is not None:
        return _write_html(made, parsed.html)
    elif parsed.md:
        print(markdown(made))
    else:
        print(text(made))
    return 0


def _write_html(made: dict[str, Any], given: Path) -> int:
    from proxy.cli.html_file import write  # noqa: PLC0415  slow to import, and other forms don't need it
    from proxy.cli.report_html import html  # noqa: PLC0415  the same

    if not write(html(made), given):
        return 1
    refused = sum(team["refused"] for team in made["teams"])
    print(f"{given}: teams: {len(made['teams'])}; commands that would be refused: {refused:,}")
    return 0
