"""How many clients each worker has, where all workers of the group see it: who should get the next one.

The kernel gives each new connection to the listening socket of one worker, by chance: of four clients one worker gets
three or more five times out of eight. So a worker that has more clients than another hands what it accepts over to that
one (``handover``).

The memory is an array of 64-bit integers. Each of them has one writer, so nobody needs a lock:

    clients[worker]           of the worker itself; -1 while it takes none
    sent[from][to]            connections handed over, counted by who sends them
    taken[from][to]           of these, the ones that have arrived, counted by who takes them
"""

from typing import Final

_AWAY: Final = -1
_UNTAKEN: Final = 64
"""Connections that may be on their way from one worker to another: one that hangs takes none, and gets no more."""
_FEW: Final = 4
_STEP: Final = 16
"""A worker with ``_FEW`` clients or more keeps a new one while it has one more than the others, and one in ``_STEP`` of
many: among many clients that makes no difference, and to hand a client over costs a fifth of what it costs to accept
one."""


def cells(workers: int) -> int:
    """How many integers the memory has for so many workers."""
    return workers + 2 * workers * workers


class WorkerLoads:
    """What worker ``number`` sees and writes; ``away`` is for the supervisor, too."""

    def __init__(self, memory: memoryview, workers: int, number: int = 0) -> None:
        table = memory.cast("B").cast("q")
        self._number = number
        self._clients = table[:workers]
        self._sent = [table[workers * (1 + row) :][:workers] for row in range(workers)]
        self._taken = [table[workers * (1 + workers + row) :][:workers] for row in range(workers)]
        self._others = [other for other in range(workers) if other != number]
        self._mine = 0
        self._open = False

    def begin(self) -> None:
        """This worker takes clients from now on. What was sent to the one before it, and got lost, has arrived."""
        self._open = True
        for other in self._others:
            self._taken[other][self._number] = self._sent[other][self._number]
        self.add(0)

    def end(self) -> None:
        """This worker takes no more clients."""
        self._open = False
        self.away(self._number)

    def away(self, worker: int) -> None:
        """That worker takes no clients."""
        self._clients[worker] = _AWAY

    def add(self, clients: int) -> None:
        """This worker has so many more clients."""
        self._mine += clients
        if self._open:
            self._clients[self._number] = self._mine

    def to_relieve(self) -> int | None:
        """The worker that should get a new client of this one; None if it should stay."""
        mine = self._mine + self._under_way(self._number)
        most = mine - 1 - max(mine >= _FEW, mine // _STEP)
        found: int | None = None
        for other in self._others:
            clients = self._clients[other]
            if 0 <= clients <= most:
                untaken = self._sent[self._number][other] - self._taken[self._number][other]
                clients += self._under_way(other)
                if untaken < _UNTAKEN and clients <= most:
                    most = clients - 1
                    found = other
        return found

    def _under_way(self, worker: int) -> int:
        # Connections that wait in its inbox. In a crowd they are many, and it has accepted none of its own yet.
        count = 0
        for sent, taken in zip(self._sent, self._taken, strict=True):
            count += sent[worker] - taken[worker]
        return count

    def sent(self, worker: int, count: int = 1) -> None:
        """A connection goes to that worker, or, with -1, could not."""
        self._sent[self._number][worker] += count

    def taken(self, worker: int, count: int) -> None:
        """So many connections have come from that worker."""
        self._taken[worker][self._number] += count
