"""`keyrail remedy KEY --cap APP=RATE --for TIME --because TEXT`, `remedy KEY --local-cache …`, `remedy list`,
`remedy undo ID`."""

import argparse
import sys
from typing import Any

from proxy.cli.admin_port import AdminPort, AdminPortError, add_options
from proxy.cli.line import LineParser
from proxy.wire.numbers import read_digits

_USAGE = 2
_SECONDS = 30.0
"""Longer than Keyrail waits for its workers."""
_PATH = "/remedies"


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "remedy",
        help="cap one key for one app, or answer its reads from memory, for a while",
        allow_abbrev=False,
        usage="keyrail remedy KEY (--cap APP=RATE | --local-cache) --because TEXT [--for TIME] [--dry-run] | list | "
        "undo ID",
        description="Put a limit on one key in force at once, or a local cache for it, in all workers of a running "
        "Keyrail. It prints its effect on the last minute, and ends by itself.",
    )
    parser.add_argument("key", nargs="?", metavar="KEY", help="the key as /hotkeys shows it; or list, or undo")
    parser.add_argument("id", nargs="?", metavar="ID", help="the remedy to undo")
    parser.add_argument("--incident", metavar="INC", help="cap the key of this incident, if the key is redacted")
    parser.add_argument("--cap", metavar="APP=RATE", help="such as checkout=5000/s; all=… for all clients together")
    parser.add_argument("--local-cache", action="store_true", help="answer reads of the key from Keyrail's memory")
    parser.add_argument("--for", dest="how_long", metavar="TIME", help="at most 24h (default 30m)")
    parser.add_argument("--because", metavar="TEXT", help="the reason, such as the incident's number")
    parser.add_argument("--route", metavar="NAME", help="the route, if there are several")
    parser.add_argument("--dry-run", action="store_true", help="only print how much the limit would have refused")
    add_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Run the subcommand, print its effect, and return the exit status."""
    port = AdminPort(parsed.admin, parsed.token_file, _SECONDS)
    try:
        if parsed.key == "list" and parsed.cap is None:
            return _list(port)
        if parsed.key == "undo" and parsed.id is not None and read_digits(parsed.id) is not None:
            port.delete(f"{_PATH}/{parsed.id}")
            print(f"remedy {parsed.id} is undone")
            return 0
        app, equals, rate = (parsed.cap or "").partition("=")
        one_kind = bool(equals) != parsed.local_cache
        if not one_kind or parsed.id is not None or (parsed.key is None) == (parsed.incident is None):
            expected = "KEY --cap APP=RATE --because TEXT, KEY --local-cache --because TEXT, list, or undo ID"
            print(f"keyrail: expected {expected}", file=sys.stderr)
            return _USAGE
        return _add(port, parsed, app, rate)
    except AdminPortError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return error.status


def _add(port: AdminPort, parsed: argparse.Namespace, app: str, rate: str) -> int:
    order = {
        "key": parsed.key,
        "incident": parsed.incident,
        "route": parsed.route,
        "app": None if parsed.local_cache else app,
        "rate": None if parsed.local_cache else rate,
        "local_cache": True if parsed.local_cache else None,
        "for": parsed.how_long,
        "because": parsed.because,
        "dry_run": True if parsed.dry_run else None,
    }
    answer = port.post(_PATH, {name: value for name, value in order.items() if value is not None})
    effect = answer["effect"]
    if not parsed.dry_run:
        print(_sentence(answer))
    if parsed.local_cache:
        print(f"in the last minute {effect['reads']} of {effect['used']} commands/s with this key only read it")
    else:
        would = f"it would have refused {effect['refused']} of {effect['used']} commands/s"
        print(f"in the last minute {would} of {'all clients' if app == 'all' else f'app {app}'} with this key")
    print("dry run: nothing has changed" if parsed.dry_run else f"undo it with: keyrail remedy undo {answer['id']}")
    return 0


def _list(port: AdminPort) -> int:
    found = port.get(_PATH)
    for remedy in found["remedies"]:
        done = f"{remedy['answered']} answered" if remedy["local_cache"] else f"{remedy['refused']} refused"
        print(f"{_sentence(remedy)}; {done} so far")
    if not found["remedies"]:
        print("there is no remedy")
    elif not found["survive_restart"]:
        print("they do not survive a restart (serve --state FILE)")
    return 0


def _sentence(remedy: dict[str, Any]) -> str:
    if remedy["local_cache"]:
        what = f"reads of {remedy['key']} are answered from memory for {remedy['app']}"
    else:
        what = f"{remedy['key']} is capped at {remedy['rate']} for {remedy['app']}"
    return f"remedy {remedy['id']}: {what} until {remedy['until']} ({remedy['because']})"
