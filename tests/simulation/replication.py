"""What a primary sends to its replicas: the keys that have changed, with all that they hold.

What it has acknowledged has left for its replicas before, so where the process ends, it arrives there, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.data import Database
from tests.simulation.network import Address, Network, Path

if TYPE_CHECKING:
    from tests.simulation.connection import Connection
    from tests.simulation.engine import Server

Snapshot = tuple[int, list[Database]]
"""An offset, and the data that were there."""
_BYTES = 37
"""Of the stream, for each change."""


class Link:
    """From a primary to one of its replicas: the stream there, and what the replica has applied, back."""

    def __init__(self, primary: Replication, replica: Replication) -> None:
        network = primary.network
        self.primary, self.replica = primary, replica
        self.acknowledged = 0
        self.lag = 0.0
        self._there = Path(network, primary.address[0], replica.address[0], self._arrived)
        self._back = Path(network, replica.address[0], primary.address[0], self._acknowledge)
        self._waiting: list[Any] = []

    def send(self, item: Any) -> None:
        self._there.send(item)

    def _arrived(self, items: list[Any]) -> None:
        self._waiting += items
        self.primary.loop.call_later(self.lag, self.apply, len(items)) if self.lag else self.apply(len(items))

    def apply(self, most: int = 1 << 30) -> None:
        """The replica applies what has come."""
        if self.replica.link is not self or self.replica.frozen or not self.replica.alive:
            return
        items, self._waiting = self._waiting[:most], self._waiting[most:]
        for offset, changes in items:
            self.replica.apply(offset, changes)
        if items:
            self._back.send(self.replica.offset)

    def _acknowledge(self, offsets: list[int]) -> None:
        self.acknowledged = max(self.acknowledged, offsets[-1])
        self.primary.serve_waits()

    def end(self) -> None:
        self._waiting.clear()
        self._there.drop()
        self._back.drop()


class Replication:
    """The part of a server that replicates: a primary with ``links`` to its replicas, or a replica with the ``link``
    that leads to it."""

    databases: list[Database]
    alive: bool
    frozen: bool

    def __init__(self, network: Network, address: Address) -> None:
        self.network, self.address, self.loop = network, address, network.loop
        self.primary: Server | None = None
        self.link: Link | None = None
        self.links: dict[Link, None] = {}
        self.replid = f"{network.chance.getrandbits(160):040x}"
        self.offset = 1
        self.waits: list[tuple[Connection, int, int, Any]] = []
        self._notes: dict[tuple[int, bytes | None], None] = {}

    def note(self, database: int, key: bytes | None) -> None:
        """A key has changed, or, without one, the whole database is empty now."""
        if self.primary is None:
            self._notes.pop((database, key), None)
            self._notes[database, key] = None

    def propagate(self) -> None:
        """Send what has changed, as one."""
        if not self._notes:
            return
        notes, self._notes = self._notes, {}
        self.offset += _BYTES * len(notes)
        if self.links:
            changes = [
                (database, key, None if key is None else self.databases[database].snapshot(key))
                for database, key in notes
            ]
            for link in self.links:
                link.send((self.offset, changes))

    def tell_replicas(self, channel: bytes, message: bytes) -> None:
        """PUBLISH goes through the stream, too."""
        self.offset += _BYTES
        for link in self.links:
            link.send((self.offset, [(channel, message)]))

    def apply(self, offset: int, changes: Any) -> None:
        """What the primary has sent."""
        server: Any = self
        self.offset = offset
        if isinstance(changes, list):
            for change in changes:
                if len(change) == 2:
                    server.publish(*change)
                elif change[1] is None:
                    server.flush([change[0]])
                else:
                    database, key, (value, expires) = change
                    self.databases[database].put(key, _own(value), expires)
                    server.changed(database, key, None)
        else:
            self.databases, self.replid = [each.copied() for each in changes[0]], changes[1]
            server.flush(())
        server.after_command()

    def snapshot(self) -> Snapshot:
        """What it has now."""
        return self.offset, [each.copied() for each in self.databases]

    def restore(self, snapshot: Snapshot) -> None:
        """A replica has what it had then, and gets the rest again."""
        self.offset, self.databases = snapshot
        if self.link is not None:
            primary = self.link.primary
            self.link.end()
            self.link.send((primary.offset, (primary.snapshot()[1], primary.replid)))

    # Who replicates whom

    def replicate(self, primary: Server) -> None:
        """Become a replica of this server, or of another one, with a copy of its data."""
        self.detach()
        self.detach_all()
        self.primary = primary
        self.link = Link(primary, self)
        self.offset = 0
        primary.links[self.link] = None
        self.link.send((primary.offset, ([each.copied() for each in primary.databases], primary.replid)))

    def promote(self) -> None:
        """Become a primary."""
        self.detach()
        self.replid = f"{self.network.chance.getrandbits(160):040x}"

    def detach(self) -> None:
        """Replicate nobody."""
        if self.link is not None:
            self.link.primary.links.pop(self.link, None)
            self.link.end()
        self.primary = self.link = None

    def detach_all(self) -> None:
        """Nothing leads to the replicas any more. What was sent still arrives."""
        self.links.clear()

    def catch_up(self) -> None:
        """Apply what came while the process stood still."""
        if self.link is not None:
            self.link.apply()

    @property
    def link_is_up(self) -> bool:
        """Whether its primary is there, and has sent its data."""
        return self.link is not None and self.link in self.link.primary.links and self.offset > 0

    # WAIT

    def reached(self, offset: int) -> int:
        """How many replicas have applied so much."""
        return sum(link.acknowledged >= offset for link in self.links)

    def serve_waits(self) -> None:
        """End the WAITs that replicas have caught up with."""
        for wait in list(self.waits):
            connection, number, offset, _ = wait
            if self.reached(offset) >= number or connection.blocked is None:
                self.end_wait(wait)

    def end_wait(self, wait: tuple[Connection, int, int, Any]) -> None:
        connection, _, offset, timer = wait
        if wait in self.waits:
            self.waits.remove(wait)
            if timer is not None:
                timer.cancel()
            if connection.blocked is not None:
                connection.unblock(self.reached(offset))


def _own(value: Any) -> Any:
    return value if value is None or isinstance(value, bytes) else value.copy()
