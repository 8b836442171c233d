"""Opening a connection to Redis: transport, login, database, and what HELLO says about the engine."""

import asyncio
import os
import socket
import ssl
from collections import Counter
from dataclasses import dataclass

import hiredis

from proxy.net.config.address import UpstreamAddress
from proxy.net.connection.engine import Engine, described_by
from proxy.net.connection.followed import secret_of
from proxy.net.connection.keepalive import watch_over
from proxy.net.connection.tls import FollowedContext, reason_of
from proxy.net.connection.upstream import Keeper, UpstreamConnection
from proxy.net.sockets.opening import connect_tcp, connect_unix
from proxy.session.ports.pool_key import PoolKey
from proxy.wire.decode import read_reply

_CLOSED = "it closed the connection without an answer; if this port speaks TLS, write rediss:// for redis://"
_WHILE_BUSY = 0.05
"""Seconds between two SELECTs while Redis answers BUSY."""


class UpstreamRefusedError(Exception):
    """Redis was reached and refused the connection. The text is its error."""


@dataclass(slots=True)
class Opened:
    """A connection that is logged in, and in database 0 until ``set_to`` chooses another.

    ``unauthenticated``: Redis asks for a password that Keyrail does not have, so clients must log in themselves.
    ``hello``: HELLO exists, and RESP3 with it.
    """

    upstream: UpstreamConnection
    engine: Engine | None
    unauthenticated: bool
    hello: bool = True


async def open_without_login(
    address: UpstreamAddress,
    tls: FollowedContext | None,
    keeper: Keeper,
    key: PoolKey,
    loop: asyncio.AbstractEventLoop,
) -> UpstreamConnection:
    """Connect without sending anything. The connection is in database 0. Raises OSError."""
    upstream = UpstreamConnection(keeper, key._replace(database=0), loop)
    if address.path is not None:
        await connect_unix(loop, upstream, str(address.path))
        return upstream
    if tls is None:
        transport = await connect_tcp(loop, upstream, address.host, address.port)
    else:
        name = address.server_name or address.host
        transport, _ = await loop.create_connection(
            lambda: upstream, address.host, address.port, ssl=tls.current(), server_hostname=name
        )
    watch_over(transport.get_extra_info("socket"))
    return upstream


async def open_upstream(
    address: UpstreamAddress,
    tls: FollowedContext | None,
    keeper: Keeper,
    key: PoolKey,
    loop: asyncio.AbstractEventLoop,
) -> Opened:
    """Connect and log in. Raises OSError if Redis cannot be reached, UpstreamRefusedError if it refuses."""
    upstream = await open_without_login(address, tls, keeper, key, loop)
    try:
        opened = await _log_in(upstream, address, key)
        upstream.unauthenticated = opened.unauthenticated
        return opened
    except ConnectionResetError:
        if upstream.farewell:  # maxclients: Redis may send the error before any command
            raise UpstreamRefusedError(upstream.farewell) from None
        if upstream.alert is not None:  # in TLS 1.3 a server looks at its client's certificate after the handshake
            raise upstream.alert from None
        if tls is None and address.path is None:
            raise ConnectionResetError(_CLOSED) from None
        raise
    except BaseException:
        upstream.abort()
        raise


async def set_to(upstream: UpstreamConnection, key: PoolKey, seconds: float, busy: "Counter[PoolKey]") -> None:
    """Switch a connection to the protocol and database of a pool. Its key changes when Redis has confirmed.

    Redis may take ``seconds`` for each reply. While it runs a script, it refuses SELECT with BUSY. Keyrail tries again,
    and ``busy`` counts the connections that wait so. Raises OSError, and UpstreamRefusedError if Redis refuses.
    """
    if upstream.key.protocol != key.protocol:
        async with asyncio.timeout(seconds):
            await _must(upstream, ["HELLO", key.protocol])
        upstream.key = upstream.key._replace(protocol=key.protocol)
    if upstream.key.database != key.database:
        await _select(upstream, key, seconds, busy)
        upstream.key = upstream.key._replace(database=key.database)


async def _select(upstream: UpstreamConnection, key: PoolKey, seconds: float, busy: "Counter[PoolKey]") -> None:
    waits = 0
    try:
        while True:
            async with asyncio.timeout(seconds):
                reply = read_reply(await upstream.ask(["SELECT", key.database]))
            if not isinstance(reply, hiredis.ReplyError):
                return
            if not str(reply).startswith("BUSY"):
                raise UpstreamRefusedError(f"SELECT: {reply}")
            if not waits:
                waits = 1
                busy[key] += 1
            await asyncio.sleep(_WHILE_BUSY)
    finally:
        busy[key] -= waits
        if busy[key] == 0:
            del busy[key]  # the key's node may have gone, and nothing else refers to it then


async def _log_in(upstream: UpstreamConnection, address: UpstreamAddress, key: PoolKey) -> Opened:
    hello: list[str | int] = ["HELLO", key.protocol]
    login: list[str | int] = []
    if address.password is not None:
        login = [address.username or "default", await secret_of(address.password)]
        hello += ["AUTH", *login]
    frame = await upstream.ask(hello)
    if not frame.startswith(b"-"):
        return Opened(upstream, described_by(read_reply(frame)), False)
    text = frame[1:].decode("utf-8", "replace").strip()
    if text.startswith("NOAUTH") and key.protocol == 2:
        return Opened(upstream, None, True)
    if "unknown command" in text.lower() and key.protocol == 2:
        # A service without HELLO: a connection speaks RESP2 then.
        if login:
            await _must(upstream, ["AUTH", *(login if address.username else login[1:])])
        return Opened(upstream, Engine(), False, hello=False)
    raise UpstreamRefusedError(text)


async def _must(upstream: UpstreamConnection, argv: list[str | int]) -> None:
    reply = read_reply(await upstream.ask(argv))
    if isinstance(reply, hiredis.ReplyError):
        raise UpstreamRefusedError(f"{argv[0]}: {reply}")


def why(error: BaseException) -> str:
    """Why a server could not be asked, in the words of the system, of TLS or of the server."""
    if isinstance(error, UpstreamRefusedError):
        return f"it refuses the connection: {error}"
    if isinstance(error, socket.gaierror):
        return f"its name cannot be resolved: {reason_of(error)}"  # its numbers are not those of the system
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return reason_of(error) if isinstance(error, Exception) else repr(error)
