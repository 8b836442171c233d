"""`keyrail kill-switch on|off|status`: a running Keyrail enforces locked rules only, for a while."""

import argparse
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from proxy.cli.line import LineParser
from proxy.net.settings import DEFAULT_ADMIN_PORT

_FAILED = 1
_SECONDS = 30.0
"""Longer than Keyrail waits for its workers."""


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    """Add `kill-switch` and its options."""
    parser = verbs.add_parser(
        "kill-switch",
        help="stop enforcing, but for locked rules, for a while",
        allow_abbrev=False,
        description="While the switch is on, a running Keyrail enforces only locked rules: all others are judged and "
        "counted as in audit. It ends by itself.",
    )
    parser.add_argument("switch", choices=("on", "off", "status"))
    default = f"http://127.0.0.1:{DEFAULT_ADMIN_PORT}"
    parser.add_argument("--admin", metavar="URL", default=default, help=f"the admin port (default {default})")
    parser.add_argument("--for", dest="how_long", metavar="TIME", help="at most 24h (default 30m)")
    parser.add_argument("--because", metavar="TEXT", help="the reason, for whoever wonders")
    parser.add_argument("--token-file", metavar="FILE", type=Path, help="the admin port's token")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Turn the switch or read it; print how it stands; return the exit status."""
    asked = {"switch": parsed.switch, "for": parsed.how_long, "because": parsed.because}
    if parsed.switch == "status":
        body = None
    else:
        body = json.dumps({key: value for key, value in asked.items() if value is not None}).encode()
    try:
        headers = {"Content-Type": "application/json"}
        if parsed.token_file is not None:
            headers["Authorization"] = f"Bearer {parsed.token_file.read_text('utf-8').strip()}"
        answer = _ask(f"{parsed.admin.rstrip('/')}/policy/kill-switch", body, headers)
    except (OSError, ValueError) as error:
        print(f"keyrail: {_reason(error, parsed.admin)}", file=sys.stderr)
        return _FAILED
    print(_sentence(answer))
    return 0


def _ask(url: str, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"--admin: expected http://HOST:PORT, got {url!r}")
    request = urllib.request.Request(url, body, headers)  # noqa: S310  its scheme has just been checked
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
        found: dict[str, Any] = json.loads(answer.read())
        return found


def _reason(error: Exception, admin: str) -> str:
    if isinstance(error, urllib.error.HTTPError):
        with error:
            try:
                return f"{admin}: {json.loads(error.read())['error']}"
            except (ValueError, KeyError, TypeError):
                return f"{admin}: {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"{admin}: {error.reason}"
    return str(error)


def _sentence(answer: dict[str, Any]) -> str:
    if not answer["on"]:
        return "off: the policy is enforced"
    because = f" ({answer['because']})" if answer["because"] else ""
    survives = "" if answer["survives_restart"] else "; it does not survive a restart (serve --state FILE)"
    return f"on until {answer['until']}{because}: only locked rules are enforced{survives}"
