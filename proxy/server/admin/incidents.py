"""The incidents of a week: ``/incidents?count=100[&route=NAME]``, the newest first.

{"incidents": [{"id": "INC-9", "route": "default", "kind": "hot-key", "subject": "product:8841:stock", "about":
                "product:{int}:stock", "began": "2026-11-21T02:47:03.000Z", "ended": null, "lines": [line, …],
                "figures": {"at", "window", "count", "error", "rate", "share"}, "peak": {"at", "size"}, "before": 120.0,
                "slot": 7211, "cap": {"app": "checkout", "rate": "5000/s"},
                "event": {"what": "begun", "at"}, "remedies": []}]}
"""

from aiohttp import web

from proxy.server.admin.state import STATE
from proxy.server.incidents import MOST_KEPT, present
from proxy.server.option_readers import count

_USUAL = 100


async def incidents(request: web.Request) -> web.Response:
    """Answer with the incidents of a week."""
    unknown = sorted(request.query.keys() - {"count", "route"})
    if unknown:
        error = f"unknown parameter {unknown[0]!r}, expected count or route"
        return web.json_response({"error": error}, status=400)
    try:
        most = count(1, MOST_KEPT)(request.query.get("count", str(_USUAL)))
    except ValueError as error:
        return web.json_response({"error": f"count: {error}"}, status=400)
    route = request.query.get("route")
    found = [each for each in request.app[STATE].incidents.all() if route in (None, each.route)]
    return web.json_response({"incidents": [present(each) for each in found[:most]]})
