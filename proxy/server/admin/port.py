"""The admin port: its socket, which is bound before its application is imported."""

import shlex
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.net.config.background_thread import BackgroundThread
from proxy.net.config.settings import DEFAULT_ADMIN_URL, AdminSettings
from proxy.server.hot_restart import Groups, Inheritance
from proxy.server.listeners import listen_problem, listen_tcp

if TYPE_CHECKING:
    from proxy.server.admin.state import AdminState


class AdminError(Exception):
    """Keyrail cannot listen on the admin port; the text names the port and the reason."""


class AdminServer:
    """The admin port. It is bound early, so that a taken port ends the start."""

    def __init__(self, settings: AdminSettings, token_file: Path | None, inherited: Inheritance) -> None:
        """Bind the port unless it is inherited. Raises AdminError."""
        self._token_file = token_file
        self._host = settings.host
        shown = f"{settings.host}:{settings.port}"
        self._name = f"admin {shown}"
        try:
            groups = inherited.take(self._name)
            own = [each for group in groups for each in group] if groups else listen_tcp(settings.host, settings.port)
            self._sockets = own
        except OSError as error:
            raise AdminError(f"cannot listen on the admin port {shown}: {listen_problem(error)}") from None
        self._end: Callable[[], Awaitable[None]] | None = None

    @property
    def url(self) -> str:
        """The URL of the admin port."""
        host, port = self._sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def options(self) -> str:
        """The options with which a verb of ``keyrail`` on this machine reaches the port; empty if it needs none."""
        url = self.url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        where = "" if url == DEFAULT_ADMIN_URL else f" --admin {url}"
        token = "" if self._token_file is None else f" --token-file {shlex.quote(str(self._token_file))}"
        return where + token

    def handed_on(self) -> tuple[str, Groups]:
        """The socket for a successor."""
        return self._name, [[each] for each in self._sockets]

    @property
    def closed(self) -> bool:
        """Whether other machines can reach the port, so that it answers little and takes no orders."""
        bound = [ip_address(each.getsockname()[0].partition("%")[0]) for each in self._sockets]
        return self._token_file is None and not all(address.is_loopback for address in bound)

    async def start(self, state: "Callable[[], AdminState]") -> None:
        """Begin to answer from this ``state``, which is asked for when its class has been imported.

        That imports aiohttp, which takes about as long as a worker to start: meanwhile the event loop starts them.
        """
        await BackgroundThread("imports the admin port").run(partial(import_module, "proxy.server.admin.app"))
        from proxy.server.admin.access import Access  # noqa: PLC0415  imports aiohttp, see above
        from proxy.server.admin.app import serve  # noqa: PLC0415  imports aiohttp, see above

        access = Access(self._token_file, loopback=not self.closed, host=self._host)
        self._end = await serve(self._sockets, state(), access, closed=self.closed)

    async def stop(self) -> None:
        """Stop answering."""
        if self._end is not None:
            await self._end()
        for each in self._sockets:
            each.close()
