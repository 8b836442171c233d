"""`keyrail ready`: whether rules can be enforced, from evidence."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

from proxy.cli.evidence_source import SourceError, add_policy_option, add_source_options, source_of
from proxy.cli.line import LineParser, number
from proxy.server.evidence.ready import SELDOM, USUALLY, Demand, Readiness, UnknownNameError, client_text, readiness
from proxy.traffic.key_text import printable

_MOST_COMMANDS, _MOST_DAYS = 10**15, 366
_NOT_READY, _MISTAKE = 1, 2
_MOST_CLIENTS = 10
"""The most clients in the text; JSON has all."""


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "ready",
        help="whether rules can be enforced, from what was seen",
        allow_abbrev=False,
        description="Say for each rule whether evidence shows that it can be enforced. Exit status: 0 if so, else 1.",
    )
    parser.add_argument("rules", metavar="RULE", nargs="+")
    add_source_options(parser)
    add_policy_option(parser)
    parser.add_argument("--app", default="", help="only this application")
    parser.add_argument(
        "--at-least",
        metavar="N",
        type=number(1, _MOST_COMMANDS),
        default=USUALLY,
        help=f"commands that the rule is about must have been seen (default {USUALLY})",
    )
    parser.add_argument(
        "--days", metavar="N", type=number(1, _MOST_DAYS), default=0, help="so many days in place of each weekday"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Print what evidence says of each rule; return the exit status."""
    demand = Demand(parsed.app, parsed.at_least, parsed.days)
    try:
        source = source_of(parsed)
        now = time.time()
        found = [
            each
            for rule in dict.fromkeys(parsed.rules)
            for each in readiness(source.evidence, source.facts, now, rule, demand)
        ]
    except SourceError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return error.status
    except UnknownNameError as error:
        print(f"keyrail: {printable(str(error))}", file=sys.stderr)
        return _MISTAKE
    ready = all(each.ready for each in found)
    if parsed.json:
        print(json.dumps({"ready": ready, "rules": [asdict(each) for each in found]}, indent=2))
    else:
        print("\n\n".join("\n".join(map(printable, _lines(each, len(source.facts) > 1))) for each in found))
    return 0 if ready else _NOT_READY


def _lines(found: Readiness, with_route: bool) -> Iterator[str]:
    route = f"route {found.route}, " if with_route else ""
    yield f"{found.rule} ({route}{found.where}): {'ready' if found.ready else 'not ready'}"
    width = max(len(each.name) for each in found.conditions)
    for each in found.conditions:
        yield f"  {'ok' if each.ok else 'no'}  {each.name:<{width}}  {each.text}"
    if found.harmless:
        said = ", ".join(f"{outcome} {count:,}" for outcome, count in found.harmless.items())
        yield f"  harmless, no client notices: {said}"
    if found.keys:
        yield f"  it judges keys of {', '.join(found.keys)} only; commands on other keys are counted, too"
    for exception in found.exceptions:
        keys = f" for {exception['keys']}" if exception["keys"] else ""
        until = f"until {exception['until']}" if exception["until"] else "without an end"
        yield f"  not judged: exception of {exception['app'] or 'all apps'}{keys}, {until} ({exception['where']})"
    if found.seldom:
        shown = ", ".join(f"{client_text(each)} {each['count']}" for each in found.seldom[:_MOST_CLIENTS])
        more = f", and {len(found.seldom) - _MOST_CLIENTS} more" if len(found.seldom) > _MOST_CLIENTS else ""
        yield f"  seen less than {SELDOM} times: {shown}{more}"
    if found.without:
        yield f"  clients that sent nothing that the rule is about: {found.without:,}"
