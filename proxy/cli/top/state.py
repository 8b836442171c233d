"""The state of the screen, and the effect of each key press on it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.cli.top.asking import Query
from proxy.cli.top.columns import SortOrder
from proxy.cli.top.views import KEYS, VIEWS, WINDOWS, View
from proxy.wire.numbers import read_digits

HELP = (
    ("1-8, Tab", "keys, patterns, slots, clients, slow commands, rules, incidents, nodes"),
    ("s, S", "the next way to sort, the one before"),
    ("w, W", "a longer window, a shorter one: 5 s, 10 s, 1 min, 10 min, 1 h"),
    ("arrows", "choose a row; PgUp, PgDn, Home and End go further"),
    ("Enter", "all details of the row; Esc goes back"),
    ("r", "the next route, if there are several"),
    ("p, space", "freeze the screen; press again to continue"),
    ("?, h", "this help"),
    ("q, Ctrl-C", "quit"),
)
"""Keys, and their effects."""

_PAGE = 10


@dataclass(slots=True)
class ViewState:
    """``chosen`` is the name of the row that the viewer has chosen; if empty, no row is marked."""

    view: View = VIEWS[0]
    window: int = 60
    route: str | None = None
    count: int = 100
    orders: dict[str, int] = field(default_factory=dict)
    paused: bool = False
    detail: bool = False
    help: bool = False
    quit: bool = False
    chosen: str | None = None

    @property
    def order(self) -> SortOrder:
        """How the view is sorted."""
        return self._order_of(self.view)

    def query(self) -> Query:
        """The request for this view."""
        return Query(self.view, self._order_of(KEYS).name, self.window, self.route, self.count)

    def _order_of(self, view: View) -> SortOrder:
        return view.orders[self.orders.get(view.name, 0)]

    def press(self, key: str, rows: Sequence[str], routes: Sequence[str]) -> None:
        """A key was pressed; ``rows`` are the names of the rows that are shown or can be scrolled to."""
        if self.help:
            self.help = False
            self.quit = key == "q"
        elif key in _MOVES:
            self._move(_MOVES[key], rows)
        elif 1 <= (number := read_digits(key) or 0) <= len(VIEWS):
            self._show(VIEWS[number - 1])
        elif key in ("tab", "backtab"):
            turned = VIEWS.index(self.view) + (1 if key == "tab" else -1)
            self._show(VIEWS[turned % len(VIEWS)])
        else:
            self._command(key, rows, routes)

    def _show(self, view: View) -> None:
        self.view = view
        self.detail = False
        self.chosen = None

    def _command(self, key: str, rows: Sequence[str], routes: Sequence[str]) -> None:
        match key:
            case "q":
                self.quit = True
            case "?" | "h":
                self.help = True
            case "p" | " ":
                self.paused = not self.paused
            case "s" | "S":
                step = 1 if key == "s" else -1
                self.orders[self.view.name] = (self.view.orders.index(self.order) + step) % len(self.view.orders)
            case "w" | "W":
                step, windows = 1 if key == "w" else -1, list(WINDOWS)
                self.window = windows[(windows.index(self.window) + step) % len(windows)]
            case "r" if len(routes) > 1:
                following = routes.index(self.route) + 1 if self.route in routes else 1
                self.route = routes[following % len(routes)]
                self._show(self.view)
            case "enter" if rows:
                self.chosen = self.chosen or rows[0]
                self.detail = not self.detail
            case "escape":
                if not self.detail:
                    self.chosen = None
                self.detail = False
            case _:
                pass

    def _move(self, by: int, rows: Sequence[str]) -> None:
        if rows:
            at = rows.index(self.chosen) + by if self.chosen in rows else max(by, 0) and by - 1
            self.chosen = rows[min(max(at, 0), len(rows) - 1)]


_MOVES = {"up": -1, "down": 1, "pageup": -_PAGE, "pagedown": _PAGE, "home": -1_000_000, "end": 1_000_000}
