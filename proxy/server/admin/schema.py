"""The keys that the policies in force know: ``/schema``.

    {"routes": [{"route": "default",
                 "entries": [{"title": "shop/cart", "app": "shop", "key": "cart:{user:int}", "type": "hash",
                              "ttl": {"default": 7200}, "fields": {"items": "int"}, …}]}]}

Each entry is as ``KEYRAIL SCHEMA`` has it (``policy.schema_export``), without what it does not say.
"""

from aiohttp import web

from proxy.policy.schema_export import entry_facts
from proxy.server.admin.state import STATE


async def schema(request: web.Request) -> web.Response:
    """Answer with the entries of each route's policy."""
    state = request.app[STATE]
    routes = [
        {"route": route.name, "entries": [entry_facts(entry) for entry in policy.schema.entries]}
        for route, policy in zip(state.settings.routes, state.workers.policies, strict=True)
    ]
    return web.json_response({"routes": routes})
