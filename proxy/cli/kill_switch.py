"""`keyrail kill-switch on|off|status`: a running Keyrail enforces locked rules only, for a while."""

import argparse
import sys
from typing import Any

from proxy.cli.admin_port import AdminPort, AdminPortError, add_options
from proxy.cli.line import LineParser

_PATH = "/policy/kill-switch"
_SECONDS = 30.0
"""Longer than Keyrail waits for its workers."""


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "kill-switch",
        help="suspend all rules but locked ones for a while",
        allow_abbrev=False,
        description="While the switch is on, a running Keyrail enforces only locked rules: all others are judged and "
        "counted as in audit. It ends by itself.",
    )
    parser.add_argument("switch", choices=("on", "off", "status"), metavar="on|off|status")
    add_options(parser)
    parser.add_argument("--for", dest="how_long", metavar="TIME", help="at most 24h (default 30m)")
    parser.add_argument("--because", metavar="TEXT", help="the reason, which status and logs show")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Turn or read the switch; print its status; return the exit status."""
    port = AdminPort(parsed.admin, parsed.token_file, _SECONDS)
    given = {"switch": parsed.switch, "for": parsed.how_long, "because": parsed.because}
    asked = {key: value for key, value in given.items() if value is not None}
    try:
        answer = port.get(_PATH) if parsed.switch == "status" else port.post(_PATH, asked)
    except AdminPortError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return error.status
    print(_sentence(answer))
    return 0


def _sentence(answer: dict[str, Any]) -> str:
    if not answer["on"]:
        return "off: the policy is enforced"
    because = f" ({answer['because']})" if answer["because"] else ""
    survives = "" if answer["survives_restart"] else "; it does not survive a restart (serve --state-dir DIR)"
    return f"on until {answer['until']}{because}: only locked rules are enforced{survives}"
