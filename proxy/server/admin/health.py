"""Is this process alive, and should traffic be sent to it?"""

from aiohttp import web

from proxy.server.admin.state import STATE


async def healthz(_request: web.Request) -> web.Response:
    """Answer that the supervisor is alive: nothing behind it counts, or an outage of Redis would restart Keyrail."""
    return web.Response(text="ok\n")


async def readyz(request: web.Request) -> web.Response:
    """Answer 200 when every worker serves and every route's upstream answers; else 503, and a line for each reason."""
    reasons = request.app[STATE].reasons()
    if not reasons:
        return web.Response(text="ready\n")
    return web.Response(status=503, text="".join(f"{reason}\n" for reason in reasons))
