"""``/nodes[?route=NAME]``: the nodes of clusters, by route.

    {"routes": {"r": [{"node": "n1", "id", "address", "role", "primary", "slots": [[0, 5460]], "open", "health"}]}}

``health`` is ok, failed (most other nodes say so) or lost (Keyrail has no connection); ``open`` are slots that move.
"""

from aiohttp import web

from proxy.server.admin.state import STATE


async def nodes(request: web.Request) -> web.Response:
    """Answer with the nodes as workers see them."""
    route = request.query.get("route")
    figures = request.app[STATE].workers.figures()
    names = [its.name for its in figures]
    if request.query.keys() - {"route"} or (route is not None and route not in names):
        error = f"expected nothing, or route=NAME with one of {', '.join(names)}"
        return web.json_response({"error": error}, status=400)
    return web.json_response({"routes": {its.name: its.nodes for its in figures if route in (None, its.name)}})
