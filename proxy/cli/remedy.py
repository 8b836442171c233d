"""`keyrail remedy KEY --cap APP=RATE --for TIME --because TEXT`, `remedy KEY --local-cache …`, `remedy --client ID
--refuse …`, `remedy list`, `remedy undo ID`."""

import argparse
import sys
from typing import Any

from proxy.cli.admin_port import AdminPort, AdminPortError, add_options
from proxy.cli.line import LineParser
from proxy.traffic.redaction import of_tenant
from proxy.wire.numbers import read_digits

_USAGE = 2
_SECONDS = 30.0
"""Longer than Keyrail waits for its workers."""
_PATH = "/remedies"
_EXPECTED = (
    "KEY --cap APP=RATE --because TEXT, KEY --local-cache --because TEXT, one or more of --client, --app and --command "
    "with one of --refuse, --close and --cap RATE and --because TEXT, list, or undo ID"
)


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "remedy",
        help="cap or cache one key, or cap, refuse or close a client, an app or a command, for a while",
        allow_abbrev=False,
        usage="keyrail remedy KEY (--cap APP=RATE | --local-cache) --because TEXT [--for TIME] [--dry-run] | "
        "(--client ID | --app APP | --command NAME)… (--cap RATE | --refuse | --close) --because TEXT … | list | "
        "undo ID",
        description="Put a limit on one key in force at once, or a local cache for it, or a limit on a client, an app "
        "or a command, in all workers of a running Keyrail. It prints its effect on the last minute, and ends by "
        "itself.",
    )
    parser.add_argument("key", nargs="?", metavar="KEY", help="the key as /hotkeys shows it; or list, or undo")
    parser.add_argument("id", nargs="?", metavar="ID", help="the remedy to undo")
    parser.add_argument("--incident", metavar="INC", help="cap the key of this incident, if the key is redacted")
    parser.add_argument("--client", metavar="ID", help="the client of this id, as /clients and incidents show it")
    parser.add_argument("--app", metavar="APP", help="all clients of this app of the policy")
    parser.add_argument("--command", metavar="NAME", help="only this command, such as KEYS or 'CONFIG SET'")
    parser.add_argument("--cap", metavar="RATE", help="such as 10/s; for a key checkout=5000/s, or all=…")
    parser.add_argument("--refuse", action="store_true", help="refuse these commands")
    parser.add_argument("--close", action="store_true", help="refuse these commands, and close their clients")
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
        order = _of_traffic(parsed) if parsed.client or parsed.app or parsed.command else _of_key(parsed)
        if order is None or parsed.id is not None:
            print(f"keyrail: expected {_EXPECTED}", file=sys.stderr)
            return _USAGE
        return _add(port, parsed, order)
    except AdminPortError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return error.status


def _of_key(parsed: argparse.Namespace) -> dict[str, Any] | None:
    app, equals, rate = (parsed.cap or "").partition("=")
    one_kind = bool(equals) != parsed.local_cache
    if not one_kind or parsed.refuse or parsed.close or (parsed.key is None) == (parsed.incident is None):
        return None
    order = {"key": parsed.key, "incident": parsed.incident}
    return order | ({"local_cache": True} if parsed.local_cache else {"app": app, "rate": rate})


def _of_traffic(parsed: argparse.Namespace) -> dict[str, Any] | None:
    actions = parsed.refuse + parsed.close + (parsed.cap is not None)
    if actions != 1 or parsed.local_cache or parsed.key is not None or parsed.incident is not None:
        return None
    order = {"client": parsed.client, "app": parsed.app, "command": parsed.command, "rate": parsed.cap}
    return order | {name: True for name in ("refuse", "close") if getattr(parsed, name)}


def _add(port: AdminPort, parsed: argparse.Namespace, order: dict[str, Any]) -> int:
    order |= {
        "route": parsed.route,
        "for": parsed.how_long,
        "because": parsed.because,
        "dry_run": True if parsed.dry_run else None,
    }
    order = {name: value for name, value in order.items() if value is not None}
    answer = port.post(_PATH, order)
    if not parsed.dry_run:
        print(_sentence(answer))
    print(_effect(order, answer["effect"]))
    print("dry run: nothing has changed" if parsed.dry_run else f"undo it with: keyrail remedy undo {answer['id']}")
    return 0


def _effect(order: dict[str, Any], effect: dict[str, float] | None) -> str:
    if effect is None:
        return f"figures do not tell how often {order['command']} ran in the last minute"
    if "local_cache" in order:
        return f"in the last minute {effect['reads']} of {effect['used']} commands/s with this key only read it"
    app = order.get("app", "all")
    whose = f"client {order['client']}" if "client" in order else "all clients" if app == "all" else f"app {app}"
    would = f"it would have refused {effect['refused']} of {effect['used']} commands/s"
    return f"in the last minute {would} of {whose}{' with this key' if 'key' in order or 'incident' in order else ''}"


def _list(port: AdminPort) -> int:
    found = port.get(_PATH)
    for remedy in found["remedies"]:
        done = f"{remedy['answered']} answered" if remedy["local_cache"] else f"{remedy['refused']} refused"
        print(f"{_sentence(remedy)}; {done} so far")
    if not found["remedies"]:
        print("there is no remedy")
    elif not found["survive_restart"]:
        print("they do not survive a restart (serve --state-dir DIR)")
    return 0


def _sentence(remedy: dict[str, Any]) -> str:
    action, limit = remedy["action"], f" at {remedy['rate']}" if remedy["rate"] else ""
    if remedy["key"] is None:
        whose = f" of client {remedy['client']}" if remedy["client"] else ""
        whose += f" of app {remedy['app']}" if remedy["app"] != "all" else ""
        verb = "is" if remedy["command"] else "are"
        done = {"cap": "capped", "refuse": "refused", "close": "refused, and the clients closed,"}[action]
        what = f"{remedy['command'] or 'all commands'}{whose} {verb} {done}{limit}"
    else:
        key = remedy["key"] + of_tenant(remedy.get("tenant"))
        done = f"{key} is capped{limit}" if not remedy["local_cache"] else f"reads of {key} are answered from memory"
        what = f"{done} for {remedy['app']}"
    return f"remedy {remedy['id']}: {what} until {remedy['until']} ({remedy['because']})"
