"""The screen on a terminal, redrawn each second and at each key press, until the viewer quits.

A thread sends the requests, so that key presses work while an answer is awaited. Curses writes only changes,
and restores the terminal however this ends: by a key, a signal or an exception.
"""

import contextlib
import curses
import locale
import os
import signal
import threading
import time
from typing import NoReturn

from proxy.cli.admin_port import AdminPort, AdminPortError
from proxy.cli.top.asking import Answers, Query, ask
from proxy.cli.top.columns import Line, Tint
from proxy.cli.top.screen import Paper, rows_of, screen
from proxy.cli.top.state import ViewState

_REFRESH_SECONDS = 1.0
_LOOK_MILLISECONDS = 100
"""An answer that arrives between two key presses is shown within this time."""

_ESCAPE_MILLISECONDS = "25"
"""Milliseconds that Curses waits after Esc, since arrow keys begin with Esc."""

_KEYS = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_PPAGE: "pageup",
    curses.KEY_NPAGE: "pagedown",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_BTAB: "backtab",
    curses.KEY_ENTER: "enter",
    curses.KEY_BACKSPACE: "escape",
    curses.KEY_LEFT: "escape",
    curses.KEY_RIGHT: "enter",
    9: "tab",
    10: "enter",
    13: "enter",
    27: "escape",
    127: "escape",
}


class _Feed(threading.Thread):
    """Repeats the request for the current view; ``latest`` is the last answer, ``problem`` why there is no newer
    one."""

    def __init__(self, port: AdminPort, first: Answers) -> None:
        super().__init__(daemon=True)
        self.latest = first
        self.problem = ""
        self._port = port
        self._wanted = first.query
        self._wake = threading.Event()

    def want(self, query: Query) -> None:
        """Change the request; send it at once if it is a different one."""
        if query != self._wanted:
            self._wanted = query
            self._wake.set()

    def run(self) -> None:
        """Repeat the request until the program ends."""
        while True:
            self._wake.wait(_REFRESH_SECONDS)
            self._wake.clear()
            try:
                self.latest = ask(self._port, self._wanted)
                self.problem = ""
            except AdminPortError as error:
                self.problem = str(error)


def show(port: AdminPort, first: Answers, state: ViewState) -> None:
    """Show the screen until the viewer quits."""
    locale.setlocale(locale.LC_ALL, "")
    os.environ.setdefault("ESCDELAY", _ESCAPE_MILLISECONDS)
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        curses.wrapper(_Display(port, first, state).run)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


class _Display:
    def __init__(self, port: AdminPort, first: Answers, state: ViewState) -> None:
        self._feed = _Feed(port, first)
        self._shown = first
        self._state = state
        self._unicode = "utf" in locale.getpreferredencoding(do_setlocale=False).lower()
        self._tints: dict[Tint, int] = {}

    def run(self, window: curses.window) -> None:
        """Draw and handle key presses until the viewer quits."""
        self._tints = _tints()
        with contextlib.suppress(curses.error):
            curses.curs_set(0)  # some terminals cannot hide it
        window.timeout(_LOOK_MILLISECONDS)
        self._feed.start()
        while not self._state.quit:
            self._take_news()
            self._draw(window)
            self._obey(window.getch())

    def _take_news(self) -> None:
        latest = self._feed.latest
        # A frozen screen still follows the viewer to another view.
        if not self._state.paused or latest.query != self._shown.query:
            self._shown = latest

    def _obey(self, code: int) -> None:
        key = _KEYS.get(code) or (chr(code) if 32 <= code < 127 else "")
        if key:
            names = [self._state.view.called(row) for row in rows_of(self._shown, self._state)]
            self._state.press(key, names, self._shown.routes)
            self._feed.want(self._state.query())

    def _draw(self, window: curses.window) -> None:
        height, width = window.getmaxyx()
        paper = Paper(width, height, self._unicode)
        lines = screen(self._shown, self._state, paper, time.time(), self._feed.problem)
        window.erase()
        for y, line in enumerate(lines):
            self._write(window, y, line)
        window.refresh()

    def _write(self, window: curses.window, y: int, line: Line) -> None:
        # Curses raises an error at the last cell of the last line, after it has written it.
        with contextlib.suppress(curses.error):
            window.move(y, 0)
            for text, tint in line:
                window.addstr(text, self._tints[tint])


def _tints() -> dict[Tint, int]:
    tints = dict.fromkeys(Tint, curses.A_NORMAL)
    tints[Tint.STRONG] = tints[Tint.BAD] = curses.A_BOLD
    tints[Tint.FAINT] = curses.A_DIM
    tints[Tint.TURNED] = curses.A_REVERSE
    if curses.has_colors():
        curses.use_default_colors()
        colours = {Tint.BAR: curses.COLOR_CYAN, Tint.GOOD: curses.COLOR_GREEN, Tint.BAD: curses.COLOR_RED}
        for number, (tint, colour) in enumerate(colours.items(), 1):
            curses.init_pair(number, colour, -1)
            tints[tint] |= curses.color_pair(number)
    return tints
