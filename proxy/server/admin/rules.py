"""What each rule has found: ``/rules``, in the form that ``proxy.server.findings`` describes."""

from aiohttp import web

from proxy.server.admin.state import STATE
from proxy.server.findings import findings


async def rules(request: web.Request) -> web.Response:
    """Answer with the rules of every route and the evidence for each."""
    return web.json_response(findings(request.app[STATE].crew))
