"""Server-sent events for the page: ``/events?window=60[&route=NAME]``; without a name, of the first route.

    event: history       once, the answer of ``/traffic`` and the past of the busiest keys:
                         {"seconds": […], "tens": […], "keys": {"at": […], "keys": [{"key", "slot", "rates": […]}]}}
    event: violations    the violations since this viewer's last event, the oldest first: [{…}, …]
    event: overview      every second: the object of ``overview.py`` for the route and the window

An overview is made once a second for all viewers of the same route and window. A slow viewer misses events.
A viewer that reads nothing for too long is disconnected. The number of viewers is bounded.
"""

import asyncio
import contextlib
import json
from typing import Any

from aiohttp import web

from proxy.server.admin.overview import history, overview
from proxy.server.admin.state import STATE, AdminState
from proxy.server.admin.traffic import Asked

MOST_VIEWERS = 64
PATIENCE_SECONDS = 30.0
"""Seconds without a read after which a viewer is disconnected."""

_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Events:
    """All viewers."""

    def __init__(self, state: AdminState) -> None:
        self._state = state
        self._viewers: set[asyncio.Task[Any]] = set()
        self._made: dict[tuple[int, int], tuple[int, bytes]] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer with events until the viewer leaves."""
        try:
            asked = Asked(request, "window", any_route=True)
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        if len(self._viewers) >= MOST_VIEWERS:
            text = f"too many viewers: the limit is {MOST_VIEWERS}"
            return web.json_response({"error": text}, status=503, headers={"Retry-After": "10"})
        viewer = asyncio.current_task()
        assert viewer is not None
        self._viewers.add(viewer)
        try:
            response = web.StreamResponse(headers=_HEADERS)
            with contextlib.suppress(ConnectionError, TimeoutError):
                await response.prepare(request)
                await self._show(response, asked.route, asked.window)
            return response
        finally:
            self._viewers.discard(viewer)

    async def _show(self, response: web.StreamResponse, route: int, window: int) -> None:
        clock = asyncio.get_running_loop().time
        event = _event("history", json.dumps(history(self._state, route, window)).encode())
        told = 0
        while True:
            second = int(clock())
            told, lines = self._state.violations.since(route, told)
            if lines:
                event += _event("violations", b"[" + b",".join(line.rstrip() for line in lines) + b"]")
            event += self.overview(route, window, second)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await response.write(event)
            event = b""
            await asyncio.sleep(second + 1 - clock())

    def overview(self, route: int, window: int, second: int) -> bytes:
        """The overview of this second, made once for all viewers."""
        made, event = self._made.get((route, window), (-1, b""))
        if made != second:
            event = _event("overview", json.dumps(overview(self._state, route, window)).encode())
            self._made[route, window] = second, event
        return event

    async def stop(self, _app: web.Application) -> None:
        """End the connections of all viewers, so that the shutdown does not wait for them."""
        for viewer in self._viewers:
            viewer.cancel()


def _event(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def serve_events(app: web.Application) -> None:
    """Give the application its path."""
    events = Events(app[STATE])
    app.router.add_get("/events", events.answer)
    app.on_shutdown.append(events.stop)
