# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The joined reply of a command that the intake itself has split by slot: without an object for each key.

    the client sends    MGET a1 b1 b2 a2
    connection A        MGET a1   MGET a2       its replies are run 0
    connection B        MGET b1   MGET b2       its replies are run 1
    turns               0 1 1 0

Where each slot has one key, the next value is that of the connection whose turn it is. Where a slot has several keys
(``groups``), or a command was sent again, the frames are looked at one by one, as ``join`` does.
"""

from array import array
from collections.abc import Callable, Sequence

from proxy.hotpath.order.join import Join, sum_of, values_by_key
from proxy.hotpath.order.reply_order import Segment
from proxy.hotpath.upstream.splice import Splice
from proxy.wire.reply import ReplyScanner

# Under two names each: C integers in here, Python's for everybody else.
_VALUES = 1
_SUM = 2
VALUES = _VALUES
"""The replies are arrays of values by key."""
SUM = _SUM
"""The replies are integers."""

_MOST_RUNS = 256
_COLON = 58
_STAR = 42
_ONE = 49
_MOST_DIGITS = 18


class SplitCommands:
    """The commands that may be split by slot: ``kinds`` has VALUES or SUM for their ids, and 0 for all others.

    ``failed`` makes the reply if some parts of a command have failed, of its id, its new name if it was given one, for
    each part the places of its keys among those of the command, and the replies to all parts.
    """

    def __init__(self, kinds: bytes, failed: Callable[[int, bytes, list[list[int]], Sequence[bytes]], bytes]) -> None:
        self.kinds = kinds
        self.failed = failed


class SplitJoin(Join):
    """The replies to the parts of one command: ``turns`` has the number of the connection for each part, in the order
    of their first keys, and ``groups`` the keys of each part; None where each has one. ``name`` is the new name of the
    command, if it was given one."""

    def __init__(
        self,
        segment: Segment,
        commands: SplitCommands,
        command_id: int,
        name: bytes,
        turns: bytes,
        groups: list[list[int]] | None,
        keys: int,
        connections: int,
    ) -> None:
        super().__init__(segment, len(turns))
        self.split_commands = commands
        self.command_id = command_id
        self.name = name
        self.turns = turns
        self.groups = groups
        self.keys = keys
        self.connections = connections

    def failed(self) -> bytes:
        """The joined reply, where a part has failed."""
        return self.split_commands.failed(self.command_id, self.name, self._places(), self.frames())

    def reply(self) -> bytes:
        """The joined reply, where no part has failed."""
        by_key = self.split_commands.kinds[self.command_id] == _VALUES
        if len(self.runs) == self.connections and (self.groups is None or not by_key):
            merged = _MERGER.values(self) if by_key else _MERGER.sum(self)
            if merged is not None:
                return merged
        if by_key:
            return values_by_key(self.frames(), self._places(), self.keys)
        return sum_of(self.frames())

    def _places(self) -> list[list[int]]:
        # The keys of each part, in the order of the frames.
        groups = self.groups
        if groups is None:
            groups = [[key] for key in range(self.keys)]
        each = list(zip(self.turns, groups, strict=True))
        return [keys for number in range(self.connections) for turn, keys in each if turn == number]


class Merger:
    """The space in which a worker makes one reply of runs of frames: ``at`` is how far each run has been read."""

    def __init__(self) -> None:
        self.at = array("q", bytes(8 * _MOST_RUNS))
        self.space = Splice()
        self.scanner = ReplyScanner()

    def values(self, join: SplitJoin) -> bytes | None:
        """The elements of arrays of one element each, as one array; None where a frame is something else."""
        space = self.space
        scanner = self.scanner
        turns = join.turns
        total = len(join.turns)
        runs: list[bytes] = []
        for pieces in join.runs:
            self.at[len(runs)] = 0
            runs.append(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        space.cut(0)
        header = b"*%d\r\n" % total
        space.put(header, 0, len(header))
        i = 0
        while i < total:
            turn = turns[i]
            run: bytes = runs[turn]
            size = len(run)
            p = run
            start = self.at[turn]
            if size - start < 5 or p[start] != _STAR or p[start + 1] != _ONE or p[start + 2] != 13:
                return None
            end = scanner.whole(p, start + 4, size)
            if end < 0:
                return None
            space.put(p, start + 4, end)
            self.at[turn] = end
            i += 1
        return space.take()

    def sum(self, join: SplitJoin) -> bytes | None:
        """The sum of integers; None where a frame is something else."""
        total = 0
        for pieces in join.runs:
            for piece in pieces:
                added = self._sum_in(piece, len(piece))
                if added < 0:
                    return None
                total += added
        return b":%d\r\n" % total

    def _sum_in(self, p: bytes, size: int) -> int:
        # Counts of keys are never negative. A piece that does not hold whole frames is not read.
        total = 0
        i = 0
        while i < size:
            value = 0
            first = i + 1
            if p[i] != _COLON:
                return -1
            i = first
            while i < size and p[i] >= 48 and p[i] <= 57:
                value = value * 10 + p[i] - 48
                i += 1
            if i == first or i - first > _MOST_DIGITS or i + 1 >= size or p[i] != 13:
                return -1
            total += value
            i += 2
        return total


_MERGER = Merger()
