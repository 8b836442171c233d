"""Connections of sessions to simulated servers: when a command runs, and when a byte of its reply arrives, is the
test's to say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast

from tests.session.given import Upstream
from tests.simulation.connection import Connection
from tests.simulation.engine import Server
from tests.simulation.loop import VirtualLoop
from tests.simulation.network import Network
from tests.simulation.table import command


@command("my.own monitor", -1)
def _unknown_elsewhere(c: Connection, argv: Sequence[bytes]) -> Any:
    """A module's command, and one that tells of no others here."""
    return "OK"


def network() -> Network:
    """For servers whose time stands still."""
    return Network(VirtualLoop(), random.Random(1))


def server(**options: Any) -> Server:
    """One by itself."""
    return Server(network(), ("10.0.0.1", 6379), **options)


class Served:
    """A session's connection to a server: what it has been sent, has answered, and what of that has arrived."""

    def __init__(self, upstream: Upstream, connection: Connection) -> None:
        self.upstream = upstream
        self.connection = connection
        connection.protocol = upstream.key.protocol
        self._replies = b""

    @property
    def replies(self) -> bytes:
        """What it has answered, and has not arrived."""
        self._replies += b"".join(self.connection.out)
        self.connection.out.clear()
        return self._replies

    def step(self) -> list[bytes] | None:
        """Run one more command, which is returned, if there is one, and none before it waits for anything."""
        reader = self.connection.reader
        reader.feed(self.upstream.taken())
        if self.connection.blocked is not None or (argv := reader.gets()) is False:
            return None
        self.connection.run(argv)
        return cast("list[bytes]", argv)

    def arrive(self, most: int | None = None) -> bool:
        """Some bytes of what it has answered reach Keyrail, or all of them; whether there were any."""
        piece, self._replies = self.replies[:most], self.replies[most:] if most is not None else b""
        if piece and not self.upstream.closed:
            self.upstream.answer(piece)
        assert not self.upstream.complaints, self.upstream.complaints
        return bool(piece)
