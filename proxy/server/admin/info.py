"""The version, routes and state of this Keyrail, without names of keys or clients: ``/info``.

{"age": 0.4, "kill_switch": {"on": false, …}, "routes": [{"version", "form", "route", "ready", "reason", "upstream",
 "workers", "policy", "policy_generation", "clients", …}]}: each route as ``KEYRAIL INFO`` has it,
and with the ``reason`` why it is not ready.
"""

from aiohttp import web

from proxy.server.admin.state import STATE
from proxy.server.group_info import route_info


async def info(request: web.Request) -> web.Response:
    """Answer with all routes."""
    state = request.app[STATE]
    routes = [route_info(state.workers, state.switch, route) for route in range(len(state.settings.routes))]
    age = round(state.workers.age(), 3)
    return web.json_response({"age": age, "kill_switch": state.switch.status(), "routes": routes})
