"""Access to the admin port.

                                         with a token file     without
    /healthz, /readyz                    anybody               anybody
    /grafana.json, /alerts.yaml          anybody               anybody: they hold no figures
    /, and the page's own files          anybody               anybody: the page holds no figures, and asks for them
    /metrics                             the token             anybody; off loopback it names no key and no client
    every other GET                      the token             only if the port is bound to loopback
    POST                                 the token             only on loopback, and not from a web page

Without a token, DNS rebinding is a risk: a foreign web page has a host name that resolves to a loopback address. So a
port on loopback answers with figures only if the Host header names a loopback address, localhost, or the host of
``--admin``.

The token comes as ``Authorization: Bearer …``; its file is read for each request, so it can be changed at any time.
Errors are JSON: ``{"error": …}``.
"""

import hmac
import re
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web

from proxy.net.connection.followed import READER
from proxy.server.admin.monitoring import ALERTS, DASHBOARD
from proxy.server.admin.page.files import FOLDER
from proxy.server.admin.token import read_token

_OPEN = frozenset({"/", "/healthz", "/readyz", DASHBOARD, ALERTS})
_METRICS = "/metrics"
_TOKEN_SECONDS = 5.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Access:
    """The rules above; ``loopback``: the port is bound to loopback; ``host``: its host in the settings."""

    def __init__(self, token_file: Path | None, *, loopback: bool, host: str = "localhost") -> None:
        self._token_file = token_file
        self._loopback = loopback
        self._host = host

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let the handler answer, or answer with the reason for refusing."""
        if request.path not in _OPEN and not request.path.startswith(FOLDER):
            refused = self._refuse_stranger(request) if self._token_file is None else await self._ask_token(request)
            if refused is not None:
                return refused
        try:
            return await handler(request)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
            return web.json_response({"error": error.reason}, status=error.status, headers=allow)

    async def _ask_token(self, request: web.Request) -> web.Response | None:
        assert self._token_file is not None
        try:
            token = await READER.run(partial(read_token, self._token_file), _TOKEN_SECONDS)
        except (ValueError, TimeoutError) as error:
            return web.json_response({"error": str(error)}, status=503)
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token):
            return None
        return web.json_response(
            {"error": "expected the admin token, as in Authorization: Bearer TOKEN"},
            status=401,
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _refuse_stranger(self, request: web.Request) -> web.Response | None:
        reads = request.method in ("GET", "HEAD")
        if not self._loopback and request.path == _METRICS and reads:
            return None
        if not self._loopback:
            return web.json_response(
                {"error": "the admin port is not bound to loopback: this needs --admin-token-file"}, status=403
            )
        if not self._is_own_name(request.headers.get("Host", "localhost")):
            text = "use a loopback address or localhost in the URL: any other name needs --admin-token-file"
            return web.json_response({"error": text}, status=403)
        if not reads and "Origin" in request.headers:
            return web.json_response({"error": "a request from a web page needs --admin-token-file"}, status=403)
        return None

    def _is_own_name(self, host: str) -> bool:
        """Whether a Host header has a name that no foreign DNS zone can point to this machine's loopback."""
        found = re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]+)(?::[0-9]{1,5})?", host)
        if found is None:
            return False
        name = found[1].strip("[]").lower()
        if name in ("localhost", self._host.lower()):
            return True
        try:
            return ip_address(name).is_loopback
        except ValueError:
            return False
