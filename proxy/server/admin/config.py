"""The settings in force, from the command line, the environment, the config file and the defaults: ``/config``.

{"config": {"routes": [{"name", "listeners", "upstream", "policy", …}], "admin", "workers", "drain", …}}: times in
seconds, sizes in bytes, no secrets.
"""

from aiohttp import web

from proxy.server.admin.state import STATE
from proxy.server.effective_settings import shown


async def config(request: web.Request) -> web.Response:
    """Answer with the settings."""
    return web.json_response({"config": shown(request.app[STATE].settings)})
