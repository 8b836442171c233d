"""The findings of the rules: ``/rules``, in the form that ``proxy.server.rule_stats`` describes, and ``/violations``.

{"violations": [{"time", "route", "rule", "mode", "what", …}, …]}: the newest first, of one ``route=NAME`` or of all.
``proxy.traffic.violations`` describes the objects. They are kept even if they are not logged.
"""

import json
from typing import Any

from aiohttp import web

from proxy.server.admin.state import STATE
from proxy.server.rule_stats import rule_stats
from proxy.server.violations import MOST_KEPT


async def rules(request: web.Request) -> web.Response:
    """Answer with the rules of every route and the evidence for each."""
    return web.json_response(rule_stats(request.app[STATE].workers))


async def violations(request: web.Request) -> web.Response:
    """Answer with the newest violations."""
    state = request.app[STATE]
    names = [route.name for route in state.settings.routes]
    wanted = request.query.get("route")
    if wanted is not None and wanted not in names:
        return web.json_response({"error": f"route: expected one of {', '.join(names)}"}, status=400)
    routes = range(len(names)) if wanted is None else [names.index(wanted)]
    found: list[dict[str, Any]] = [json.loads(line) for route in routes for line in state.violations.since(route, 0)[1]]
    found.sort(key=lambda violation: str(violation["time"]), reverse=True)
    return web.json_response({"violations": found[:MOST_KEPT]})
