"""One server: its process, what changes in it, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any

import tests.simulation.keys
import tests.simulation.pubsub
import tests.simulation.scripts
import tests.simulation.serving  # noqa: F401 - their commands
from tests.simulation.connection import Connection
from tests.simulation.data import Database
from tests.simulation.replication import Replication
from tests.simulation.replies import SILENCE, Members, Push, Refusal
from tests.simulation.table import TABLE, Row

if TYPE_CHECKING:
    from tests.simulation.network import Address, Network
    from tests.simulation.node import Node
    from tests.simulation.sentinel import Sentinel


LOADING = "LOADING Redis is loading the dataset in memory"


class Server(Replication):
    """A process on a host of its own. ``users`` have passwords or none. ``forbidden`` commands are refused, and so
    many of the next reads as it is ``unable`` to answer, with an ``excuse``; ``frozen``, it does nothing."""

    _processes = count(1)

    def __init__(self, network: Network, address: Address, *, password: str | None = None, databases: int = 16) -> None:
        super().__init__(network, address)
        self.users: dict[bytes, str | None] = {b"default": password}
        self.node: Node | None = None
        self.sentinel: Sentinel | None = None
        self.valkey = False
        self.databases = [Database() for _ in range(databases)]
        self.scripts: dict[bytes, bytes] = {}
        self.forbidden: set[str] = set()
        self.calls: dict[str, int] = {}
        self.unable, self.excuse = 0, LOADING
        self.frozen = self.alive = False
        self.paused_until = 0.0
        self.start()

    # Its process

    def start(self) -> None:
        """Begin, with the data that are there; a process that runs goes on."""
        if self.alive:
            return
        self.run_id = f"{next(Server._processes):040x}"
        self.ids = count(1)
        self.connections: dict[Connection, None] = {}
        self.blocked: dict[tuple[int, bytes], dict[Connection, None]] = {}
        self.held: list[Connection] = []
        self.watchers: dict[tuple[int, bytes], dict[Connection, None]] = {}
        self.tracked: dict[bytes, dict[Connection, None]] = {}
        self.pushes: list[tuple[Connection, Any]] = []
        self.ready: dict[tuple[int, bytes], None] = {}
        self.running_script = False
        self.alive, self.frozen = True, False
        self.network.listen(self.address, lambda: Connection(self))

    def kill(self) -> None:
        """Its process ends. What it has sent arrives."""
        self.alive = False
        self.scripts.clear()
        self.network.hang_up(self.address)
        self.detach_all()

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        for each in list(self.connections):
            each.work()
        self.catch_up()

    @property
    def first_user(self) -> str | None:
        """Whose commands a new connection sends."""
        return "default" if self.users[b"default"] is None else None

    def clock(self) -> int:
        """Milliseconds of the epoch."""
        return 1_700_000_000_000 + int(self.loop.time() * 1000)

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        self.connections.pop(connection, None)
        if connection.blocked is not None:
            connection.blocked.end()
            connection.blocked = None
        connection.unwatch()
        for trackers in self.tracked.values():
            trackers.pop(connection, None)

    def drop_clients(self) -> None:
        """Close all connections, as where Sentinel makes it a replica."""
        for each in list(self.connections):
            each.transport.abort()

    def unblock_all(self, error: Callable[[Connection], Refusal | None]) -> None:
        """End what connections wait for, where it no longer can come."""
        for each in list(self.connections):
            if each.blocked is not None and not each.blocked.retry and (refusal := error(each)) is not None:
                each.unblock(refusal)

    def pause_writes(self, seconds: float) -> None:
        """CLIENT PAUSE … WRITE."""
        self.paused_until = self.loop.time() + seconds
        self.loop.call_at(self.paused_until, self.end_pause)

    def end_pause(self) -> None:
        self.paused_until = 0.0
        held, self.held = self.held, []
        for each in held:
            if each.blocked is not None:
                each.unblock(SILENCE)

    def holds_back(self, row: Row, *, writes: bool) -> bool:
        """Whether a command waits for the end of a pause."""
        return self.loop.time() < self.paused_until and (writes or "p" in row.flags)

    # What changes

    def expire(self, database: int, key: bytes) -> None:
        """A key is met that has expired. A replica leaves it to its primary."""
        if self.primary is None:
            self.databases[database].drop(key)
            self.changed(database, key, None)

    def changed(self, database: int, key: bytes, by: Connection | None) -> None:
        """Tell whoever watches or tracks it, and the replicas."""
        self.note(database, key)
        if watchers := self.watchers.get((database, key)):
            for each in watchers:
                each.watch_broken = True
        if trackers := self.tracked.pop(key, None):
            self.pushes += [(c, Push([b"invalidate", [key]])) for c in trackers if c.invalidates(by)]

    def flush(self, databases: Iterable[int]) -> None:
        """FLUSHALL, FLUSHDB."""
        emptied = set(databases)
        for (number, key), watchers in self.watchers.items():
            if number in emptied and key in self.databases[number].values:
                for each in watchers:
                    each.watch_broken = True
        for number in emptied:
            self.databases[number].clear()
            self.note(number, None)
        self.tracked.clear()
        self.pushes += [(c, Push([b"invalidate", None])) for c in self.connections if c.tracking and c.protocol == 3]

    def after_command(self) -> None:
        """Serve whoever waits, and send what follows from a command."""
        while self.ready:
            (database, key), _ = self.ready.popitem()
            for each in list(self.blocked.get((database, key), ())):
                if each.blocked is not None and self.databases[database].values.get(key):
                    try:
                        reply = each.call(TABLE[each.blocked.argv[0].upper()], each.blocked.argv)
                    except Refusal as refusal:
                        reply = refusal
                    if reply is not SILENCE:
                        each.unblock(reply)
        self.propagate()
        pushes, self.pushes = self.pushes, []
        for connection, push in pushes:
            connection.say(push)

    def publish(self, channel: bytes, message: bytes, kind: str = "") -> int:
        """The number of subscribers here."""
        got = 0
        for each in list(self.connections):
            if channel in each.subscriptions[kind]:
                self._publish(each, Push([b"smessage" if kind else b"message", channel, message]))
                got += 1
            for pattern in () if kind else each.subscriptions["p"]:
                if channel.startswith(pattern.rstrip(b"*")):
                    self._publish(each, Push([b"pmessage", pattern, channel, message]))
                    got += 1
        return got

    def _publish(self, to: Connection, push: Push) -> None:
        if self.valkey:
            self.pushes.append((to, push))  # behind the reply of the command
        else:
            to.say(push)

    def do(self, *words: bytes | str | int) -> Any:
        """Run a command as if nothing were against it."""
        connection = Connection(self)
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        reply = connection.call(TABLE[argv[0].upper()], argv)
        self.after_command()
        return list(reply) if isinstance(reply, Members) else reply
