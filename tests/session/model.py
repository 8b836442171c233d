"""The simulated engine behind sessions, with replies that name the state of the connection on which a command ran.

So a command on the wrong connection is seen at once. ``Direct`` connections are of an engine with the policy in it:
what a client must see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.session.ports.pool_key import PoolKey
from tests.session.given import FakeRoute, Upstream
from tests.session.served import Served, server
from tests.simulation.connection import Connection
from tests.simulation.engine import Server
from tests.simulation.replies import Refusal
from tests.simulation.table import Row

DENIED = ("flushall", "append")
"""Refused by the policy under which the model is played."""
SHOWN = ("echo", "eval", "blpop", "my.own", "hgetall")


def engine() -> Server:
    """One server with a few databases and users."""
    made = server(databases=3)
    made.users |= {b"ann": "right", b"bob": "right"}
    return made


class Shown(Connection):
    """A connection whose replies show whose it is."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.id = 1  # as for whoever is alone

    def call(self, row: Row, argv: Sequence[bytes]) -> Any:
        if row.name not in SHOWN:
            return super().call(row, argv)
        return f"{self.user} {self.database} {self.protocol} {argv[1].decode()}".encode()


class Direct(Shown):
    """What a client's own connection would say."""

    def command(self, argv: list[bytes]) -> bytes:
        """The reply to one command, nothing if CLIENT REPLY says so."""
        self.run(argv)
        reply = b"".join(self.out)
        self.out.clear()
        return reply

    def _refuse(self, row: Row | None, argv: Sequence[bytes]) -> str:
        # Without a reply nobody could tell whether the database has changed.
        switches = argv[0].upper() == b"SELECT" and argv[1] == b"%d" % int(argv[1])
        if (row is not None and row.name in DENIED) or (self.queue is not None and self.off and switches):
            raise Refusal("DENIED")
        return super()._refuse(row, argv)


class ModelUpstream(Upstream):
    """A connection to the engine; it answers when the test lets it."""

    def __init__(self, key: PoolKey, server: Server) -> None:
        super().__init__(key)
        self.connection = Shown(server)
        self.connection.user = key.user or "default"
        self.connection.database = key.database
        self.served = Served(self, self.connection)

    def unit_known(self) -> bool:
        """Whether the queue knows of the transaction or WATCH that is open here, as far as that has been sent."""
        is_open = self.connection.queue is not None or self.connection.watched
        return not is_open or self.closed or bool(self.outgoing or self.sent) or self.unit is not None

    def run(self) -> None:
        """Run what has arrived."""
        while self.served.step() is not None:
            pass

    def work(self, size: int | None = None) -> bool:
        """The same, and send up to ``size`` bytes of the replies; whether anything happened."""
        self.run()
        return not self.closed and self.served.arrive(size)

    def is_clean(self) -> bool:
        """Whether another client may have it."""
        of = self.connection
        return not (of.queue is not None or of.watched or of.subscribed() or of.off or of.skips)


class ModelRoute(FakeRoute):
    """A route to the engine, that looks at every connection it is given back."""

    def __init__(self, *arguments: Any) -> None:
        self.server = engine()
        super().__init__(*arguments)

    def connect(self, key: PoolKey) -> Upstream:
        return ModelUpstream(key, self.server)

    def release(self, upstream: object) -> None:
        assert isinstance(upstream, ModelUpstream)
        upstream.run()
        assert upstream.served.replies == b"", "released with replies under way"
        of = upstream.connection
        assert upstream.is_clean(), vars(of)
        key = PoolKey(None if of.user == "default" else of.user, of.database, of.protocol)
        assert key == upstream.key, (vars(of), upstream.key)
        super().release(upstream)
