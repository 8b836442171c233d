"""The subject of the checks of `keyrail doctor`: a connection to Redis, and the settings and figures of Redis.

It opens connections as `serve` does, so that TLS, the login and the password file are tested, too. It writes nothing,
and reads no client's data.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import hiredis

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.settings import ListenerSettings
from proxy.net.connection.connect import Opened, UpstreamRefusedError, open_upstream
from proxy.net.connection.engine import Engine, Probed, probe
from proxy.net.connection.tls import TlsError, reason_of, upstream_context
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.follow.sentinel_watch import find_primary
from proxy.policy.model import Policy
from proxy.server.notices import notice
from proxy.session.ports.pool_key import PoolKey
from proxy.wire.decode import read_reply

_HOME = PoolKey(None, 0, 2)


class _Alone:
    """The owner of a connection outside of any pool."""

    output_limit = 1 << 20
    errors = None
    redirects = None

    def lost(self, upstream: UpstreamConnection) -> None:
        """Its pending requests end with an error."""

    def on_resume(self, upstream: UpstreamConnection) -> None:
        """No client waits for it."""

    def doubted(self, upstream: UpstreamConnection) -> None:
        """A check asks for the role anyway."""

    def command_refused(self, upstream: UpstreamConnection, line: bytes) -> None:
        """A check has read the reply."""

    def retired(self, upstream: UpstreamConnection) -> None:
        """No client shares it."""

    def count(self, event: str) -> None:
        """There are no metrics here."""


async def find_server(address: UpstreamAddress, seconds: float) -> tuple[UpstreamAddress, str]:
    """The server to examine, and what is wrong with those who know its address. Raises OSError and TlsError."""
    if address.sentinels is None:
        return address, ""
    tls = None if address.tls is None else upstream_context(address.tls, notice)
    return await find_primary(address, address.sentinels, tls, seconds)


async def connect(address: UpstreamAddress, seconds: float) -> Opened:
    """Connect and log in. Raises OSError, UpstreamRefusedError and TlsError."""
    tls = None if address.tls is None else upstream_context(address.tls, notice)
    async with asyncio.timeout(seconds):
        return await open_upstream(address, tls, _Alone(), _HOME, asyncio.get_running_loop())


async def admits_anybody(address: UpstreamAddress, seconds: float) -> bool:
    """Whether Redis accepts clients without a password."""
    try:
        opened = await connect(replace(address, username=None, password=None), seconds)
    except (OSError, UpstreamRefusedError):
        return False
    opened.upstream.abort()
    return not opened.unauthenticated


@dataclass(frozen=True, slots=True)
class Examination:
    """One Redis, one policy and the listeners in front, with the limit of open ``files`` of this machine."""

    address: UpstreamAddress
    policy: Policy
    upstream: UpstreamConnection
    engine: Engine
    files: int
    seconds: float
    listeners: tuple[ListenerSettings, ...] = ()

    async def ask(self, argv: Sequence[str]) -> Any:
        """A reply; an error reply is a hiredis.ReplyError as a value. Raises OSError."""
        async with asyncio.timeout(self.seconds):
            return read_reply(await self.upstream.ask(argv))

    async def probed(self, needs: frozenset[str]) -> Probed:
        """What of this the user may run. A connection of its own is closed if a command may still run there. Raises
        OSError."""
        try:
            opened = await connect(self.address, self.seconds)
        except (UpstreamRefusedError, TlsError) as error:
            raise ConnectionError(reason_of(error)) from None
        try:
            async with asyncio.timeout(self.seconds):
                return await probe(opened.upstream, needs)
        finally:
            opened.upstream.abort()

    async def setting(self, name: str) -> str | None:
        """A setting of Redis; None if CONFIG GET is not allowed or does not have it."""
        reply = await self.ask(["CONFIG", "GET", name])
        if isinstance(reply, hiredis.ReplyError) or len(reply) < 2:
            return None
        return bytes(reply[1]).decode("utf-8", "replace")

    async def info(self, section: str, field: str) -> str | None:
        """A field of INFO; None if it is unknown."""
        reply = await self.ask(["INFO", section])
        if isinstance(reply, hiredis.ReplyError):
            return None
        for line in bytes(reply).decode("utf-8", "replace").splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return value
        return None
