"""Is this process alive, and should traffic be sent to it?"""

from aiohttp import web

from proxy.server.admin.state import STATE


async def healthz(_request: web.Request) -> web.Response:
    """Answer that the supervisor is alive: nothing behind it counts, or an outage of Redis would restart Keyrail."""
    return web.Response(text="ok\n")


async def readyz(request: web.Request) -> web.Response:
    """Answer 200 when every worker serves and every route's upstream answers; else 503, and a line for each reason.

    While the kill switch is on, a last line says so: that is no reason not to send traffic.
    """
    state = request.app[STATE]
    reasons = state.reasons()
    lines = reasons or ["ready"]
    if state.switch.on:
        lines = [*lines, state.switch.sentence()]
    return web.Response(status=503 if reasons else 200, text="".join(f"{line}\n" for line in lines))
