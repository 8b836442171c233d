"""The listeners of one route in one worker: whoever connects to them becomes a client of the route."""

import asyncio
import ssl
from functools import partial
from socket import socket

from proxy.net.config.settings import ListenerSettings
from proxy.net.connection.failures import Failures
from proxy.net.downstream.acceptor import Acceptor, NewClient
from proxy.net.downstream.admission import Admission
from proxy.net.downstream.client import ClientConnection
from proxy.net.downstream.patience import Patience
from proxy.net.downstream.route_clients import RouteClients
from proxy.net.logins.entrance import Entrance
from proxy.net.logins.logins import Logins
from proxy.net.policy.capabilities import Capabilities
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.ports import Ports


class RouteListeners:
    """They are served one by one. Clients begin in the pool ``home``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clients: RouteClients,
        ports: Ports,
        home: PoolKey,
        capabilities: Capabilities,
        logins: Logins,
        failures: Failures,
        admission: Admission,
        patience: Patience,
    ) -> None:
        self._loop = loop
        self._clients = clients
        self._ports = ports
        self._home = home
        self._capabilities = capabilities
        self._logins = logins
        self._failures = failures
        self._admission = admission
        self._patience = patience
        self._acceptors: list[Acceptor] = []

    def serve(self, sock: socket, of: ListenerSettings, tls: ssl.SSLContext | None) -> None:
        """Accept clients on a listening socket. Raises PasswordFileError."""
        name, new_client = str(of.address), self.new_client(of)
        acceptor = Acceptor(sock, name, self._loop, new_client, tls, self._failures, self._admission, self._patience)
        acceptor.listen()
        self._acceptors.append(acceptor)

    def new_client(self, of: ListenerSettings) -> NewClient:
        """What makes a client of each connection to this listener. Raises PasswordFileError."""
        entrance = Entrance(of, self._home, self._capabilities, self._logins, self._loop.time)
        return partial(self._new_client, entrance)

    def _new_client(self, entrance: Entrance) -> ClientConnection:
        return ClientConnection(
            self._clients, self._ports, entrance.home, entrance.limits, entrance.listener, entrance.logins
        )

    def close(self) -> None:
        """Accept no more clients."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
