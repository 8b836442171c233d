"""Keeps connections away from servers that a name does not lead to any more.

The address of a container or a pod may belong to another application's Redis a moment later. So each attempt to open a
connection resolves the name again. The last known address stays in use without that only for the server that has been
there: its run_id proves it. So nobody waits long for a resolver that hangs.
"""

import asyncio

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.engine import run_id_in
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.topology.primary import Primary

_RESOLVER_SECONDS = 0.5
"""How long the resolver may take where the run_id can prove the same."""


class NameGuard:
    """Of one primary that a name leads to."""

    def __init__(self, primary: Primary) -> None:
        self._primary = primary

    async def confirms(self, address: UpstreamAddress, seconds: float, *, provable: bool = True) -> bool:
        """Whether the name has this address now. If not, or if it cannot be resolved, its watch looks soon.

        The resolver may take so many seconds; less where the run_id that is known can prove it as well (``provable``).
        """
        if provable and self._primary.run_id is not None:
            seconds = min(seconds, _RESOLVER_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                confirmed = Endpoint(address.host, address.port) in await self._primary.resolve()
        except OSError:
            confirmed = False
        if not confirmed:
            self._primary.doubt()
        return confirmed

    async def check(self, upstream: UpstreamConnection, address: UpstreamAddress) -> None:
        """Check a connection to an address that the name does not confirm.

        Raises ConnectionRefusedError if another server than before may be there.
        """
        known = self._primary.run_id
        if known is None or run_id_in(await upstream.ask(["INFO", "server"])) != known:
            raise self.refusal(address)

    def refusal(self, address: UpstreamAddress) -> ConnectionRefusedError:
        """Why no connection goes there."""
        at = Endpoint(address.host, address.port)
        return ConnectionRefusedError(f"{self._primary.login.host} is not known to lead to {at} any more")
