"""/healthz and /readyz: whether this process is alive, and whether it should get traffic."""

from aiohttp import web

from proxy.server.admin.state import STATE


async def healthz(request: web.Request) -> web.Response:
    """Answer 200 while a worker serves, else 503. An outage of Redis does not count: it must not restart Keyrail."""
    workers = request.app[STATE].workers
    if workers.living > len(workers.silent()):
        return web.Response(text="ok\n")
    return web.Response(status=503, text="no worker serves\n")


async def readyz(request: web.Request) -> web.Response:
    """Answer 200 when every worker serves and the routes' upstreams answer; else 503, and a line for each reason.

    With ``?route=`` only that route counts. Without it, ``--ready-when`` says whether all must be ready, or one.
    More lines say what is not as it should be, and that the kill switch is on; the status is the same.
    """
    state = request.app[STATE]
    readiness = state.readiness()
    names = [route.name for route in state.settings.routes]
    route = request.query.get("route")
    if request.query.keys() - {"route"} or (route is not None and route not in names):
        return web.Response(status=400, text=f"expected no parameter, or route=NAME with one of {', '.join(names)}\n")
    if route is None:
        reasons = readiness.reasons_against(state.settings.ready_when)
    else:
        reasons = readiness.reasons_of(route)
    lines = [*(reasons or ["ready"]), *readiness.warnings_of(route)]
    if state.switch.on:
        lines = [*lines, state.switch.sentence()]
    return web.Response(status=503 if reasons else 200, text="".join(f"{line}\n" for line in lines))
