"""The clients of one route in one worker."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator

from proxy.net.connection.failures import Failures
from proxy.net.connection.unsent import has_arrived
from proxy.net.downstream.admission import MAX_CLIENTS, Admission
from proxy.session.ports.client_identity import Origin
from proxy.session.session import Session

_log = logging.getLogger("keyrail.clients")
_GOODBYE = 1.0
"""Seconds for a TLS client of a draining route to answer the close. One that rests in a pool does not read it."""


class RouteClients(Collection[Session]):
    """The clients that are connected now.

    ``refuses`` says whether the route serves no clients now. ``on_close`` is called for each client that has left.
    """

    def __init__(
        self,
        admission: Admission,
        refuses: Callable[[], bool],
        on_close: Callable[[Session], None],
        failures: Failures,
    ) -> None:
        self._clients: set[Session] = set()
        self._admission = admission
        self._refuses = refuses
        self._on_close = on_close
        self._failures = failures
        self._draining = False
        self._drained = asyncio.Event()
        self._total = 0
        self._closed: Counter[str] = Counter()

    def __contains__(self, client: object) -> bool:
        return client in self._clients

    def __iter__(self) -> Iterator[Session]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def client_connected(self, client: Session) -> None:
        """Admit a new client, or close it."""
        if self._refuses():
            client.close("not_ready")
        elif not self._admission.admit():
            client.turn_away(MAX_CLIENTS, "max_clients")
        else:
            self._clients.add(client)
            self._total += 1
            _log.debug("client %s has connected to %s", client.origin.address, client.origin.listener)
            if self._draining:
                client.close_when_drained("shutdown")

    def client_closed(self, client: Session, cause: str) -> None:
        """Remove a client that has left."""
        if client in self._clients:
            self._clients.remove(client)
            self._admission.leave()
        self._admission.closed()
        self._on_close(client)
        self._closed[cause] += 1
        _log.debug("client %s has left %s: %s", client.origin.address, client.origin.listener, cause)
        if cause == "web_request":
            self._warn_of_web_page(client.origin)
        if not self._clients:
            self._drained.set()

    def _warn_of_web_page(self, of: Origin) -> None:
        self._failures.note(
            "web_request",
            of.listener,
            f"{of.listener}: closed the client {of.address}, which sent POST or Host: as browsers do: a web page may "
            "be trying to send commands to Redis",
        )

    async def drain(self, seconds: float) -> None:
        """Read no more; give each client up to ``seconds`` to receive its pending replies, then close it."""
        self._draining = True
        for client in list(self._clients):
            client.close_when_drained("shutdown")
        self._drained = asyncio.Event()
        end = asyncio.get_running_loop().time() + seconds
        while self._clients and (left := end - asyncio.get_running_loop().time()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, _GOODBYE)):
                    await self._drained.wait()
            self._abort_silent()
        self.close()

    def _abort_silent(self) -> None:
        # The event loop waits 30 s for a TLS client's answer to the close.
        for client in list(self._clients):
            transport = client.transport
            if transport is not None and transport.is_closing() and has_arrived(transport):
                transport.abort()

    def close(self) -> None:
        """Close all of them now."""
        for client in list(self._clients):
            client.close("shutdown")

    def figures(self) -> dict[str, object]:
        """Clients now, and since the start."""
        return {
            "clients": len(self._clients),
            "clients_total": self._total,
            "closed": dict(self._closed),
        }
