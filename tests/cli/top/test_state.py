"""The keys of `keyrail top`."""

from __future__ import annotations

from proxy.cli.top.state import HELP, ViewState
from proxy.cli.top.views import VIEWS, WINDOWS
from proxy.traffic import time_series

ROWS = [f"row {number}" for number in range(30)]


def pressed(*keys: str, routes: tuple[str, ...] = ("default",)) -> ViewState:
    state = ViewState()
    for key in keys:
        state.press(key, ROWS, routes)
    return state


def test_views() -> None:
    assert pressed("3").view.name == "Slots"
    assert pressed("tab", "tab").view.name == "Slots"
    assert pressed("backtab").view.name == "Nodes"
    assert pressed("9").view.name == "Keys"
    assert pressed("down", "enter", "2").chosen is None


def test_sorting_is_each_views_own_and_only_that_of_keys_is_asked_for() -> None:
    state = pressed("s", "s", "s", "2", "s")
    assert state.order.name == "bytes"
    assert state.query().by == "bytes"
    assert pressed("2", "s").query().by == "all"
    assert pressed("S").order.name == "bytes"


def test_windows() -> None:
    assert [pressed(*"w" * times).query().window for times in range(4)] == [60, 600, 3600, 5]
    assert pressed("W").window == 10
    assert tuple(WINDOWS) == time_series.WINDOWS, "whatever can be asked about can be chosen"


def test_choosing_a_row() -> None:
    assert pressed("down").chosen == "row 0"
    assert pressed("up").chosen == "row 0"
    assert pressed("down", "down", "down", "up").chosen == "row 1"
    assert pressed("pagedown", "pagedown", "pageup").chosen == "row 9"
    assert pressed("end", "down").chosen == "row 29"
    assert pressed("end", "home").chosen == "row 0"
    state = pressed("down", "down", "enter")
    assert (state.detail, state.chosen) == (True, "row 1")
    state.press("down", ROWS, ())
    assert (state.detail, state.chosen) == (True, "row 2")
    state.press("escape", ROWS, ())
    assert (state.detail, state.chosen) == (False, "row 2")
    state.press("escape", ROWS, ())
    assert state.chosen is None
    assert pressed("enter").chosen == "row 0"


def test_no_rows() -> None:
    state = ViewState()
    for key in ("down", "end", "enter"):
        state.press(key, [], ())
    assert (state.chosen, state.detail) == (None, False)


def test_routes() -> None:
    assert pressed("r").route is None, "there is one"
    routes = ("orders", "sessions", "other")
    assert [pressed(*"r" * times, routes=routes).route for times in range(1, 4)] == ["sessions", "other", "orders"]


def test_pause_help_and_the_end() -> None:
    assert pressed("p").paused
    assert not pressed("p", " ").paused
    assert pressed("?").help
    state = pressed("?", "2")
    assert (state.help, state.view) == (False, VIEWS[0]), "any key ends the help, and does nothing else"
    assert pressed("q").quit
    assert pressed("h", "q").quit
    assert not pressed("x").quit
    assert HELP
