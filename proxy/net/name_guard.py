"""Keeps connections away from servers that a name does not lead to any more.

The address of a container or a pod may belong to another application's Redis a moment later. So each attempt to open a
connection resolves the name again. The last known address stays in use without that only for the server that has been
there: its run_id proves it.
"""

import asyncio

from proxy.net.engine import run_id_in
from proxy.net.primary import Primary
from proxy.net.slot_map import Endpoint
from proxy.net.upstream import UpstreamConnection


class NameGuard:
    """Of one primary that a name leads to."""

    def __init__(self, primary: Primary) -> None:
        self._primary = primary

    async def confirms(self, endpoint: Endpoint, seconds: float) -> bool:
        """Whether the name has this address now. If not, or if it cannot be resolved, its watch looks soon."""
        try:
            async with asyncio.timeout(seconds):
                confirmed = endpoint in await self._primary.resolve()
        except OSError:
            confirmed = False
        if not confirmed:
            self._primary.doubt()
        return confirmed

    async def check(self, upstream: UpstreamConnection, endpoint: Endpoint) -> None:
        """Check a connection to an address that the name does not confirm.

        Raises ConnectionRefusedError if another server than before may be there.
        """
        known = self._primary.run_id
        if known is None or run_id_in(await upstream.ask(["INFO", "server"])) != known:
            raise self.refusal(endpoint)

    def refusal(self, endpoint: Endpoint) -> ConnectionRefusedError:
        """Why no connection goes there."""
        return ConnectionRefusedError(f"{self._primary.login.host} is not known to lead to {endpoint} any more")
