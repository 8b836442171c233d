"""``/nodes[?route=NAME]``: the nodes of clusters, and primaries that Sentinels or a name lead to, by route.

    {"routes": {"r": [{"node": "n1", "id", "address", "role", "primary", "slots": [[0, 5460]], "open", "health", "lag",
                       "lag_seconds", "rate", "commands", "connections", "ping_ms", "serves", "reads", "reads_resent",
                       "read_errors", "pending", "info"}]}}

``health`` is ok, failed (most other nodes say so), lost (Keyrail cannot connect), silent (it does not answer) or
unlinked (a replica without its primary), syncing (it loads its primary's data) or foreign (it has other data than its
primary); ``open`` are slots that move; ``lag`` is in bytes, ``lag_seconds`` at most so many seconds; ``rate`` and
``commands`` are what Keyrail sends. A replica ``serves`` if it answers reads for its primary now: ``reads`` so far, of
which ``reads_resent`` were sent again elsewhere, ``read_errors`` as often as it failed, and ``pending`` replies now.
``info`` is what INFO says of a primary's keys and memory (``info_figures``), at most half a minute ago; else null.
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
