"""`keyrail incidents`: list the incidents of the last seven days."""

import argparse
import json
import sys
from typing import Any

from proxy.cli.admin_port import AdminPort, AdminPortError, add_options
from proxy.cli.line import LineParser, number

_SECONDS = 10.0
_MOST = 1000


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "incidents",
        help="hot keys, hot slots, large values and clients that hinder others, of the last seven days",
        allow_abbrev=False,
        description="Print the incidents of a running Keyrail, the newest last, each with a remedy.",
    )
    add_options(parser)
    parser.add_argument("--count", metavar="N", type=number(1, _MOST), default=10, help="most incidents (default 10)")
    parser.add_argument("--json", action="store_true", help="print JSON, the newest first")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Print the incidents; return the exit status."""
    try:
        found = AdminPort(parsed.admin, parsed.token_file, _SECONDS).get("/incidents", count=parsed.count)
    except AdminPortError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return error.status
    if parsed.json:
        print(json.dumps(found, indent=2))
        return 0
    for incident in reversed(found["incidents"]):
        print(_head(incident))
        print("".join(f"  {line}\n" for line in incident["lines"]))
    if not found["incidents"]:
        print("no incident in the last seven days")
    return 0


def _head(incident: dict[str, Any]) -> str:
    until = f"until {incident['ended']}" if incident["ended"] else "OPEN"
    return f"{incident['id']} {incident['kind']} on route {incident['route']}, since {incident['began']}, {until}"
