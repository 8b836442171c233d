"""The admin application: every path."""

import logging
import socket
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from proxy.server.admin.access import Access
from proxy.server.admin.config import config
from proxy.server.admin.events import serve_events
from proxy.server.admin.evidence import ANSWERS, SharedAnswers, evidence, show_report
from proxy.server.admin.health import healthz, readyz
from proxy.server.admin.incidents import incidents
from proxy.server.admin.info import info
from proxy.server.admin.log_level import set_log_level, show_log_level
from proxy.server.admin.monitoring import ALERTS, DASHBOARD, monitoring
from proxy.server.admin.nodes import nodes
from proxy.server.admin.page.files import FOLDER, Page, wants_page
from proxy.server.admin.policy import kill_switch, policy, reload, turn_kill_switch
from proxy.server.admin.remedies import add_remedy, remedies, undo_remedy
from proxy.server.admin.rules import rules, violations
from proxy.server.admin.schema import schema
from proxy.server.admin.state import STATE, AdminState
from proxy.server.admin.stored import serve_stored
from proxy.server.admin.traffic import TRAFFIC
from proxy.server.anonymous_metrics import AnonymousRegistry

CLOSED = web.AppKey("closed", bool)


async def metrics(request: web.Request) -> web.Response:
    """Answer in Prometheus's text format; without names of keys and clients if the client may not see them."""
    registry = request.app[STATE].registry
    body = generate_latest(AnonymousRegistry(registry) if request.app[CLOSED] else registry)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def serve(
    sockets: Sequence[socket.socket], state: AdminState, access: Access, *, closed: bool
) -> Callable[[], Awaitable[None]]:
    """Begin to answer on these sockets; ``closed``: little, as other machines reach them. What ends it is returned."""
    app = web.Application(middlewares=[access.check])
    app[STATE] = state
    app[CLOSED] = closed
    app[ANSWERS] = SharedAnswers()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/info", info)
    app.router.add_get("/config", config)
    app.router.add_get("/log_level", show_log_level)
    app.router.add_post("/log_level", set_log_level)
    for path in (DASHBOARD, ALERTS):
        app.router.add_get(path, monitoring)
    for path, answer in TRAFFIC.items():
        app.router.add_get(path, answer)
    app.router.add_get("/nodes", nodes)
    app.router.add_get("/incidents", incidents)
    app.router.add_get("/remedies", remedies)
    app.router.add_post("/remedies", add_remedy)
    app.router.add_delete("/remedies/{number}", undo_remedy)
    serve_events(app)
    _serve_page(app)
    app.router.add_get("/rules", rules)
    app.router.add_get("/evidence", evidence)
    app.router.add_get("/report", show_report)
    serve_stored(app)
    app.router.add_get("/schema", schema)
    app.router.add_get("/violations", violations)
    app.router.add_get("/policy", policy)
    app.router.add_post("/policy/reload", reload)
    app.router.add_get("/policy/kill-switch", kill_switch)
    app.router.add_post("/policy/kill-switch", turn_kill_switch)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=1.0,
        logger=_requests_log(),
        auto_decompress=False,  # half a MB can become half a GB, and aiohttp decodes on the event loop
    )
    await runner.setup()
    for each in sockets:
        await web.SockSite(runner, each).start()
    return runner.cleanup


def _requests_log() -> logging.Logger:
    # Anybody can send bytes that are no HTTP, or disconnect before the answer: these errors are not logged.
    log = logging.getLogger("keyrail.admin")
    log.addFilter(_is_a_fault)
    return log


def _is_a_fault(record: logging.LogRecord) -> bool:
    error = None if record.exc_info is None else record.exc_info[1]
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError)


def _serve_page(app: web.Application) -> None:
    page = Page()
    told = (
        *TRAFFIC,
        "/nodes",
        "/incidents",
        "/remedies",
        "/events",
        "/rules",
        "/evidence",
        "/report",
        "/stored",
        "/schema",
        "/violations",
        "/policy",
        DASHBOARD,
        ALERTS,
    )
    paths = " ".join(("/healthz", "/readyz", "/metrics", "/info", "/config", "/log_level", *told))

    async def index(request: web.Request) -> web.Response:
        return page.answer() if wants_page(request) else web.Response(text=f"keyrail: {paths}\n")

    app.router.add_get("/", index)
    app.router.add_get(FOLDER + "{name}", page.file)
