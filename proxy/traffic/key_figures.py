"""What is added up over traces about one key, and about one pattern of keys."""

from dataclasses import dataclass, field
from operator import itemgetter

from proxy.traffic.labels import Client
from proxy.traffic.latency import Histogram
from proxy.traffic.trace import Trace

MOST_CLIENTS_OF_KEY = 24


@dataclass(slots=True)
class Volume:
    """Commands that read and that write, their bytes in and out, and how many found no key.

    `measured` is the number of reads of one key with a traced reply; `missed` of them got a null.
    """

    reads: int = 0
    writes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    measured: int = 0
    missed: int = 0
    refused: int = 0

    @property
    def weight(self) -> int:
        """All commands."""
        return self.reads + self.writes

    def add(self, more: "Volume") -> None:
        """Add the other's figures."""
        self.reads += more.reads
        self.writes += more.writes
        self.bytes_in += more.bytes_in
        self.bytes_out += more.bytes_out
        self.measured += more.measured
        self.missed += more.missed
        self.refused += more.refused

    def clone(self) -> "Volume":
        """A copy of the figures."""
        return Volume(self.reads, self.writes, self.bytes_in, self.bytes_out, self.measured, self.missed, self.refused)

    @classmethod
    def of(cls, trace: Trace, write: bool, share: int = 1) -> "Volume":
        """The volume of a trace; with `share` n, the n-th part of its bytes."""
        weight = trace.weight
        # Whether the key exists: a write's OK does not tell, nor does the array that MGET answers for all its keys.
        tells = trace.measured and not trace.failed and not write and len(trace.keys) == 1
        return cls(
            reads=0 if write else weight,
            writes=weight if write else 0,
            bytes_in=weight * trace.bytes_in // share,
            bytes_out=weight * trace.bytes_out // share,
            measured=weight if tells else 0,
            missed=weight if tells and trace.missed else 0,
            refused=weight if trace.refused else 0,
        )


@dataclass(slots=True)
class KeyFigures:
    """One key: its traffic, and its clients."""

    volume: Volume = field(default_factory=Volume)
    pattern: str = ""
    clients: dict[Client, int] = field(default_factory=dict)
    """Uses by client. No Counter: making one takes longer than all else, and a second has hundreds of keys."""
    other_clients: int = 0
    until: float = 0.0
    """When it expires, in seconds since the epoch: infinity if it does not expire, 0 if unknown."""

    @property
    def weight(self) -> int:
        """Uses of the key."""
        return self.volume.weight

    def see(self, volume: Volume, pattern: str, client: Client, weight: int) -> None:
        """Add a use of the key, for `weight` ones of this client."""
        self.volume.add(volume)
        self.pattern = pattern
        self._add_client(client, weight)

    def add(self, more: "KeyFigures") -> None:
        """Add the other's figures."""
        self.volume.add(more.volume)
        self.pattern = more.pattern
        for client, weight in more.clients.items():
            self._add_client(client, weight)
        self.other_clients += more.other_clients
        self.until = max(self.until, more.until)

    def _add_client(self, client: Client, weight: int) -> None:
        self.clients[client] = self.clients.get(client, 0) + weight
        if len(self.clients) > 2 * MOST_CLIENTS_OF_KEY:
            ranked = self.ranked_clients()
            self.other_clients += sum(weight for _, weight in ranked[MOST_CLIENTS_OF_KEY:])
            self.clients = dict(ranked[:MOST_CLIENTS_OF_KEY])

    def ranked_clients(self) -> list[tuple[Client, int]]:
        """The clients with their uses, the busiest first."""
        return sorted(self.clients.items(), key=itemgetter(1), reverse=True)

    def clone(self) -> "KeyFigures":
        """A copy of the figures."""
        return KeyFigures(self.volume.clone(), self.pattern, self.clients.copy(), self.other_clients, self.until)


@dataclass(slots=True)
class PatternFigures:
    """One pattern of keys: an entry of the schema, or a shape."""

    volume: Volume = field(default_factory=Volume)
    times: Histogram = field(default_factory=Histogram)
    app: str = ""
    largest: int = 0
    largest_key: bytes = b""
    largest_by: Client = ()
    """Whose command that was."""
    largest_stored: int = 0
    """Its bytes at Redis, where its values are stored compressed, else 0."""
    asked: int = 0
    """How often Keyrail has asked for the TTL of a key of the pattern."""
    expiring: int = 0
    """How often the key had a TTL."""
    read_in_runs: int = 0
    """Runs of consecutive reads of single keys (``session.n_plus_one``)."""

    @property
    def weight(self) -> int:
        """Uses of its keys."""
        return self.volume.weight

    def see_largest(self, size: int, key: bytes, client: Client, stored: int) -> None:
        """Keep the size of a command or reply of this client if it is the largest, with the bytes `stored` at
        Redis."""
        if size > self.largest:
            self.largest, self.largest_key, self.largest_by, self.largest_stored = size, key, client, stored

    def add(self, more: "PatternFigures") -> None:
        """Add the other's figures."""
        self.volume.add(more.volume)
        self.times.merge(more.times)
        self.app = more.app or self.app
        self.see_largest(more.largest, more.largest_key, more.largest_by, more.largest_stored)
        self.asked += more.asked
        self.expiring += more.expiring
        self.read_in_runs += more.read_in_runs

    def clone(self) -> "PatternFigures":
        """A copy of the figures."""
        sizes = self.largest, self.largest_key, self.largest_by, self.largest_stored
        told = self.asked, self.expiring, self.read_in_runs
        return PatternFigures(self.volume.clone(), self.times.clone(), self.app, *sizes, *told)
