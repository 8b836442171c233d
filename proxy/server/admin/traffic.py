"""The traffic: the busiest keys, patterns, slots and clients, slow commands, and the last minute.

    /hotkeys?count=10&window=60[&by=reads|writes|bytes]    keys, with their clients and since when they are busy
    /patterns  /slots  /clients                            the same windows: 5, 10, 60, 600 and 3600 seconds
    /slow?count=20                                         the slowest of the commands traced in an hour
    /local_cache                                           what the local cache did in a window
    /traffic                                               the last minute by seconds, ten minutes by tens of seconds

Every path takes ``route=NAME`` if there are several routes. Counts of keys are exact within their ``error``; all other
figures are estimates from traced commands.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from aiohttp import web

from proxy.net.config.settings import Settings
from proxy.server.admin.local_cache import local_cache
from proxy.server.admin.state import STATE, AdminState
from proxy.traffic import json_views
from proxy.traffic.time_series import WINDOWS
from proxy.wire.numbers import read_digits, read_whole

MOST_ROWS = 1000
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.Response]]

ORDERS = ("all", "reads", "writes", "bytes")

_USUAL_WINDOW = 60


class Asked:
    """The parameters of a request. Raises ValueError with the problem."""

    def __init__(self, request: web.Request, *names: str, count: int = 10, any_route: bool = False) -> None:
        self._request = request
        known = (*names, "route")
        for name in request.query:
            if name not in known:
                raise ValueError(f"unknown parameter {name!r}, expected {', '.join(known[:-1])} or {known[-1]}")
        self.count = self._number("count", count, MOST_ROWS)
        self.window = self._window()
        self.by = request.query.get("by", ORDERS[0])
        if self.by not in ORDERS:
            raise ValueError(f"by: expected one of {', '.join(ORDERS)}, got {self.by!r}")
        self.route = self._route(request.app[STATE].settings, any_route)

    def _number(self, name: str, default: int, most: int) -> int:
        text = self._request.query.get(name, str(default))
        try:
            return read_whole(text, 1, most)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _window(self) -> int:
        text = self._request.query.get("window", str(_USUAL_WINDOW))
        window = read_digits(text)
        if window not in WINDOWS:
            windows = ", ".join(map(str, WINDOWS[:-1]))
            raise ValueError(f"window: expected {windows} or {WINDOWS[-1]} seconds, got {text!r}")
        return window

    def _route(self, settings: Settings, any_route: bool) -> int:
        names = [route.name for route in settings.routes]
        wanted = self._request.query.get("route")
        if wanted is None and (any_route or len(names) == 1):
            return 0
        if wanted not in names:
            raise ValueError(f"route: expected one of {', '.join(names)}")
        return names.index(wanted)


def hot_keys(state: AdminState, route: int, window: int, count: int, by: str, now: float) -> dict[str, Any]:
    """The busiest keys, and whether keys are ``counted``: under the policy ``none`` they are not."""
    workers = state.workers
    policy, redaction = workers.policies[route], workers.redaction(route)
    told = json_views.hot_keys(workers.time_series[route], window, count, by, now, redaction, policy.alerts.hot_key)
    keys = told.pop("keys")  # The long part comes last.
    return told | {"counted": policy.count_keys, "keys": keys}


def _hot_keys(state: AdminState, asked: Asked) -> dict[str, Any]:
    return hot_keys(state, asked.route, asked.window, asked.count, asked.by, time.time())


def _patterns(state: AdminState, asked: Asked) -> dict[str, Any]:
    time_series, redaction = state.workers.time_series[asked.route], state.workers.redaction(asked.route)
    return json_views.patterns(time_series, asked.window, asked.count, time.time(), redaction)


def _slots(state: AdminState, asked: Asked) -> dict[str, Any]:
    time_series, redaction = state.workers.time_series[asked.route], state.workers.redaction(asked.route)
    now = time.time()
    found = {"unusual_tags": json_views.unusual_tags(time_series, asked.window, now)}
    return json_views.slots(time_series, asked.window, asked.count, now, redaction) | found


def _clients(state: AdminState, asked: Asked) -> dict[str, Any]:
    return json_views.clients(state.workers.time_series[asked.route], asked.window, asked.count, time.time())


def _slow(state: AdminState, asked: Asked) -> dict[str, Any]:
    return json_views.slow(state.workers.time_series[asked.route], asked.count, state.workers.redaction(asked.route))


def _local_cache(state: AdminState, asked: Asked) -> dict[str, Any]:
    return local_cache(state, asked.route, asked.window)


def _traffic(state: AdminState, asked: Asked) -> dict[str, Any]:
    return json_views.traffic(state.workers.time_series[asked.route])


_Tell: TypeAlias = Callable[[AdminState, Asked], dict[str, Any]]


def _path(tell: _Tell, *names: str, count: int = 10) -> Handler:
    """The handler of a path: it answers with the view, or with the problem of the request."""

    async def answer(request: web.Request) -> web.Response:
        try:
            asked = Asked(request, *names, count=count)
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response(tell(request.app[STATE], asked))

    return answer


TRAFFIC: dict[str, Handler] = {
    "/hotkeys": _path(_hot_keys, "count", "window", "by"),
    "/patterns": _path(_patterns, "count", "window", count=100),
    "/slots": _path(_slots, "count", "window", count=20),
    "/clients": _path(_clients, "count", "window", count=50),
    "/slow": _path(_slow, "count", count=20),
    "/local_cache": _path(_local_cache, "window"),
    "/traffic": _path(_traffic),
}
"""The handlers, by path."""
