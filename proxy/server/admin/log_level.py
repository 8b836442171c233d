"""The least urgent lines that Keyrail logs, and their change at run time: ``/log_level``.

GET   {"level": "info"}
POST  {"level": "debug"}, which answers the same. After a restart, ``--log-level`` counts again.
"""

from aiohttp import web

from proxy.net.config.settings import LogLevel
from proxy.server.admin.orders import read_body, read_order
from proxy.server.admin.state import STATE
from proxy.server.notices import log_from, log_level, notice
from proxy.server.option_readers import word_of


async def show_log_level(_: web.Request) -> web.Response:
    """Answer with the level in force."""
    return web.json_response({"level": log_level().value})


async def set_log_level(request: web.Request) -> web.Response:
    """Let this process and all workers log from this level on."""
    try:
        asked = read_order(await read_body(request), {"level"})
        level = word_of(LogLevel)(str(asked.get("level", "")))
    except ValueError as error:
        return web.json_response({"error": f"level: {error}"}, status=400)
    if level is not log_level():
        notice(f"log level: {level.value}, before {log_level().value}")
        log_from(level)
        request.app[STATE].workers.log_from(level)
    return web.json_response({"level": level.value})
