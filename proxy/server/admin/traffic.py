"""The busiest keys: ``/hotkeys?count=10&window=60[&route=NAME]``.

{"window": 60, "age": 0.4, "keys": [{"key", "count", "error", "share", "reads", "writes"}, …]}
"""

from aiohttp import web

from proxy.server.admin.state import STATE, AdminState
from proxy.traffic.merge import merge, present
from proxy.traffic.windows import LONGEST_WINDOW

MOST_KEYS = 1000


async def hotkeys(request: web.Request) -> web.Response:
    """Answer with the busiest keys of one route, over all workers."""
    state = request.app[STATE]
    try:
        _refuse_unknown(request)
        count = _number(request, "count", 10, MOST_KEYS)
        window = _number(request, "window", LONGEST_WINDOW, LONGEST_WINDOW)
        route = _route(request, state)
    except ValueError as error:
        return web.json_response({"error": str(error)}, status=400)
    answers = await state.crew.ask(route, window)
    if not answers:
        return web.json_response({"error": "no worker answers"}, status=503)
    return web.json_response(present(merge(answers, MOST_KEYS), count))


def _refuse_unknown(request: web.Request) -> None:
    for name in request.query:
        if name not in ("count", "window", "route"):
            raise ValueError(f"unknown parameter {name!r}, expected count, window or route")


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise ValueError(f"{name}: expected a whole number from 1 to {most}, got {text!r}")
    return int(text)


def _route(request: web.Request, state: AdminState) -> int:
    names = [route.name for route in state.settings.routes]
    wanted = request.query.get("route")
    if wanted is None and len(names) == 1:
        return 0
    if wanted not in names:
        raise ValueError(f"route: expected one of {', '.join(names)}")
    return names.index(wanted)
