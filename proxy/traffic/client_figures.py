"""What a client does to Redis beside its uses of keys: connections that it has ended, and the time of its commands.

How long a reply takes does not tell how long its command ran: whoever waits behind a slow one takes as long. So the
time is what Redis itself tells of each command on the average (``INFO commandstats``), divided among the clients that
sent it: by how many they were, and how much Redis has answered. Of scripts, neither tells what they did.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from proxy.commands.rows import ALL
from proxy.traffic.labels import ClientLabel

_SCRIPTS = frozenset(row.name for row in ALL if row.script)
_NEARLY_ALL = 0.9
"""The part of all scripts from which a client is taken for the one whose scripts take the time."""
_BYTES = 100
"""A command takes as long as so many bytes of its reply, beside these."""


@dataclass(slots=True)
class EndedConnections:
    """Connections of one client that have ended, and the commands on them."""

    connections: int = 0
    commands: int = 0

    @property
    def weight(self) -> int:
        """The number of connections."""
        return self.connections

    def add(self, more: "EndedConnections") -> None:
        """Add the other's figures."""
        self.connections += more.connections
        self.commands += more.commands

    def clone(self) -> "EndedConnections":
        """A copy of the figures."""
        return EndedConnections(self.connections, self.commands)


@dataclass(slots=True)
class TimeAtRedis:
    """One command of one client: how often it ran, and the `seconds` that it took; 0 where that is not known.

    `most` are seconds that it did not take more than, by the quickest reply of each second; 0 if none was measured.
    """

    count: int = 0
    seconds: float = 0.0
    most: float = 0.0

    @property
    def weight(self) -> int:
        """In microseconds, and one for each command."""
        return self.count + int(self.seconds * 1e6)

    def add(self, more: "TimeAtRedis") -> None:
        """Add the other's figures."""
        self.count += more.count
        self.seconds += more.seconds
        self.most += more.most

    def clone(self) -> "TimeAtRedis":
        """A copy of the figures."""
        return TimeAtRedis(self.count, self.seconds, self.most)


CommandOfClient = tuple[str, ...]
"""The command, and then the client: its app and its label."""


class CommandTimes:
    """The commands of one second, and their times."""

    def __init__(self) -> None:
        self._found: dict[str, dict[ClientLabel, tuple[int, int, float]]] = defaultdict(dict)

    def see(self, command: str, client: ClientLabel, count: int, size: int, took: float) -> None:
        """Add a command of a client (its app and label) that stands for this many, each with a reply of this size that
        took so many seconds to come; 0 if that is not known."""
        clients = self._found[command]
        counted, bytes_out, least = clients.get(client, (0, 0, 0.0))
        clients[client] = counted + count, bytes_out + count * size, min(least or took, took or least)

    def figures(self, costs: Mapping[str, float]) -> Iterator[tuple[CommandOfClient, TimeAtRedis]]:
        """The figures; ``costs`` are the seconds that a command takes on the average, as far as they are known."""
        for command, clients in self._found.items():
            total = sum(count for count, _, _ in clients.values())
            all_work = sum(_BYTES * count + size for count, size, _ in clients.values())
            for client, (count, size, least) in clients.items():
                part = (_BYTES * count + size) / all_work
                if command in _SCRIPTS:
                    part = count / total if count >= _NEARLY_ALL * total else 0.0
                yield (command, *client), TimeAtRedis(count, part * total * costs.get(command, 0.0), count * least)
