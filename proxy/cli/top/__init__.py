"""`keyrail top`: watch a running Keyrail, like `top`.

asking.py   requests to the admin port, and their answers
views.py    the views: their paths, columns and sort orders
columns.py  what a column or a sort order is
text.py     numbers, and names made safe for a terminal
screen.py   the screen as lines of text
detail.py   all that is known about one row
state.py    the choices of the viewer, and the effect of each key of the keyboard
live.py     the screen on a terminal

Without a terminal, or with --once, it prints one screen.
"""

import argparse
import json
import shutil
import sys
import time

from proxy.cli.admin_port import AdminPort, AdminPortError, add_options
from proxy.cli.line import LineParser, number
from proxy.cli.top.asking import Answers, ask, ask_for_all
from proxy.cli.top.screen import Paper, page
from proxy.cli.top.state import ViewState
from proxy.cli.top.views import KEYS, VIEWS, WINDOWS

_USAGE = 2
_SECONDS = 5.0
_MOST_ROWS = 1000
_ROWS_ONCE, _ROWS_LIVE = 20, 100
_WIDTH = 120
"""Columns of the output if the width is unknown."""


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    """Add `top` and its options."""
    parser = verbs.add_parser(
        "top",
        help="watch the traffic of a running Keyrail",
        allow_abbrev=False,
        description="Show the busiest keys of a running Keyrail with their clients, patterns, slots, clients, slow "
        "commands and the findings of rules, each second. Press ? for help. Without a terminal, or with --once, print "
        "one screen.",
    )
    add_options(parser)
    parser.add_argument(
        "--window", metavar="SECONDS", type=int, choices=WINDOWS, default=60, help="5, 10, 60, 600 or 3600 (default 60)"
    )
    orders = [order.name for order in KEYS.orders]
    parser.add_argument("--by", choices=orders, default=orders[0], help="sort order of the keys (default all uses)")
    views = [view.name.lower() for view in VIEWS]
    parser.add_argument("--view", choices=views, default=views[0], help="the first view (default keys)")
    parser.add_argument("--route", metavar="NAME", help="the route, if there are several (default the first)")
    parser.add_argument("--count", metavar="N", type=number(1, _MOST_ROWS), help="most rows")
    parser.add_argument("--once", action="store_true", help="print one screen and end")
    parser.add_argument("--json", action="store_true", help="with --once: print all views as one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Show it; return the exit status."""
    if parsed.json and not parsed.once:
        print("keyrail: --json needs --once", file=sys.stderr)
        return _USAGE
    once = parsed.once or not (sys.stdin.isatty() and sys.stdout.isatty())
    state = ViewState(
        view=next(view for view in VIEWS if view.name.lower() == parsed.view),
        window=parsed.window,
        route=parsed.route,
        count=parsed.count or (_ROWS_ONCE if once else _ROWS_LIVE),
        orders={KEYS.name: [order.name for order in KEYS.orders].index(parsed.by)},
    )
    port = AdminPort(parsed.admin, parsed.token_file, _SECONDS)
    try:
        answers = ask_for_all(port, state.query()) if parsed.json else ask(port, state.query())
    except AdminPortError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return error.status
    if parsed.json:
        print(_as_json(answers))
    elif once:
        encoding = sys.stdout.encoding.lower().replace("-", "")
        paper = Paper(shutil.get_terminal_size((_WIDTH, 24)).columns, 2 * state.count + 40, encoding == "utf8")
        print("\n".join(page(answers, state, paper, time.time())))
    else:
        from proxy.cli.top.live import show  # noqa: PLC0415  curses is not everywhere where this program is

        show(port, answers, state)
    return 0


def _as_json(answers: Answers) -> str:
    found = {"route": answers.route, "window": answers.query.window, "info": answers.info}
    found |= {"kill_switch": answers.switch, "traffic": answers.seconds}
    return json.dumps(found | answers.told)
