"""``/nodes[?route=NAME]``: the nodes of clusters, and primaries that Sentinels or a name lead to, by route.

    {"routes": {"r": [{"node": "n1", "id", "address", "role", "primary", "slots": [[0, 5460]], "open", "health", "lag",
                       "rate", "commands", "connections", "ping_ms"}]}}

``health`` is ok, failed (most other nodes say so), lost (Keyrail cannot connect), silent (it does not answer) or
unlinked (a replica without its primary); ``open`` are slots that move; ``lag`` is in bytes; ``rate`` and ``commands``
are what Keyrail sends.
"""

from aiohttp import web

from proxy.server.admin.state import STATE


async def nodes(request: web.Request) -> web.Response:
    """Answer with the nodes as all workers see them."""
    route = request.query.get("route")
    figures = request.app[STATE].workers.figures()
    names = [its.name for its in figures]
    if request.query.keys() - {"route"} or (route is not None and route not in names):
        error = f"expected nothing, or route=NAME with one of {', '.join(names)}"
        return web.json_response({"error": error}, status=400)
    return web.json_response({"routes": {its.name: its.nodes for its in figures if route in (None, its.name)}})
