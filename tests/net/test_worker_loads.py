"""Clients that stay connected are shared evenly between workers, however the kernel distributes them, and a worker that
hangs or has ended gets no more."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from proxy.net.handover import Handover, Place
from proxy.net.worker_loads import WorkerLoads, cells


def group(workers: int) -> list[WorkerLoads]:
    memory = memoryview(bytearray(8 * cells(workers)))
    found = [WorkerLoads(memory, workers, number) for number in range(workers)]
    for each in found:
        each.begin()
    return found


@pytest.mark.parametrize("workers", [2, 3, 4, 16])
@pytest.mark.parametrize("clients", [4, 8, 50])
def test_no_worker_has_more_than_one_client_above_its_share(workers: int, clients: int) -> None:
    for seed in range(100):
        chance = random.Random(seed)
        loads, here = group(workers), [0] * workers
        for _ in range(clients):
            chosen = chance.randrange(workers)
            other = loads[chosen].to_relieve()
            chosen = chosen if other is None else other
            loads[chosen].add(1)
            here[chosen] += 1
        assert max(here) <= -(-clients // workers) + 1
        if clients <= 4:
            assert max(here) - min(here) <= 1


class Crowd:
    """Connections wait where the kernel has put them, are put by, are sent, and wait in an inbox."""

    def __init__(self, workers: int, clients: int, chance: random.Random) -> None:
        self.loads = group(workers)
        self.here, self.put_by, self.waiting = ([0] * workers for _ in range(3))
        self.inboxes: list[list[int]] = [[] for _ in range(workers)]
        for _ in range(clients):
            self.waiting[chance.randrange(workers)] += 1

    def accept(self, worker: int) -> None:
        for _ in range(self.waiting[worker]):
            into = self.here if self.loads[worker].to_relieve() is None else self.put_by
            into[worker] += 1
            self.loads[worker].add(1)
        self.waiting[worker] = 0

    def decide(self, worker: int) -> None:
        for _ in range(self.put_by[worker]):
            self.loads[worker].add(-1)
            other = self.loads[worker].to_relieve()
            if other is None:
                self.here[worker] += 1
                self.loads[worker].add(1)
            else:
                self.loads[worker].sent(other)
                self.inboxes[other].append(worker)
        self.put_by[worker] = 0

    def take(self, worker: int) -> None:
        for sender in self.inboxes[worker]:
            self.loads[worker].taken(sender, 1)
            self.loads[worker].add(1)
            self.here[worker] += 1
        self.inboxes[worker].clear()


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_a_crowd_is_shared_in_whatever_order_workers_have_their_turn(workers: int) -> None:
    for seed in range(200):
        chance = random.Random(seed)
        crowd = Crowd(workers, 50, chance)
        while sum(crowd.here) < 50:
            chance.choice([crowd.accept, crowd.decide, crowd.take])(chance.randrange(workers))
        assert max(crowd.here) <= -(-50 // workers) + 1, (seed, crowd.here)


def test_what_is_under_way_counts_and_a_worker_that_takes_nothing_gets_no_more() -> None:
    busy, hung = group(2)
    busy.add(100)
    for _ in range(64):
        assert busy.to_relieve() == 1
        busy.sent(1)
    assert busy.to_relieve() is None
    hung.taken(0, 1)
    assert busy.to_relieve() == 1
    hung.add(90)
    assert busy.to_relieve() is None


def test_a_worker_that_has_ended_gets_nothing_and_its_replacement_owes_nothing() -> None:
    busy, ended = group(2)
    busy.add(10)
    ended.end()
    assert busy.to_relieve() is None
    busy.sent(1, 64)
    ended.begin()
    assert busy.to_relieve() == 1


class Worker:
    """One of two workers, and what has been handed over to it."""

    def __init__(self, loads: WorkerLoads, number: int, inboxes: Sequence[tuple[socket.socket, socket.socket]]) -> None:
        self.loads = loads
        self.taken: list[tuple[Place, bytes]] = []
        self.came = asyncio.Event()
        inbox, outboxes = inboxes[number][0], [sending for _, sending in inboxes]
        self.handover = Handover(asyncio.get_running_loop(), number, loads, inbox, outboxes, self.take)

    def take(self, place: Place, connection: socket.socket) -> None:
        with connection:
            self.taken.append((place, connection.recv(10)))
        self.came.set()


def test_a_connection_reaches_the_other_worker_and_waits_for_its_replacement() -> None:
    async def main() -> None:
        with ExitStack() as held:

            def pair() -> tuple[socket.socket, socket.socket]:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                ours.setblocking(False)
                theirs.setblocking(False)
                return held.enter_context(ours), held.enter_context(theirs)

            inboxes = [pair(), pair()]
            loads = group(2)
            busy, other = (Worker(each, number, inboxes) for number, each in enumerate(loads))
            other.loads.end()
            busy.handover.begin()
            busy.loads.add(5)

            def come(word: bytes) -> bool:
                connection, client = pair()
                client.sendall(word)
                worker = busy.handover.destination()
                if worker is not None:
                    busy.handover.hand_over(worker, (1, 2), connection)
                return worker is not None

            assert not come(b"none")  # nobody else is there yet
            other.handover.begin()
            assert come(b"one")
            await other.came.wait()
            assert other.taken == [((1, 2), b"one")]
            # What is on its way to a worker that ends is its replacement's.
            asyncio.get_running_loop().remove_reader(inboxes[1][0].fileno())
            assert come(b"two")
            other.loads.end()
            await asyncio.sleep(0)
            assert not come(b"three")
            replacement = Worker(loads[1], 1, inboxes)
            replacement.handover.begin()
            assert replacement.taken == [((1, 2), b"two")]
            replacement.handover.end()
            busy.handover.end()

    asyncio.run(main())


def test_connections_that_are_lost_on_their_way_are_not_waited_for() -> None:
    """Where no more files can be opened, the kernel closes what comes (man 7 unix)."""

    class Inbox:
        def recvmsg(self, *_: int) -> tuple[bytes, list[object], int, None]:
            return struct.pack("=HHHH", 0, 0, 0, 64), [], socket.MSG_CTRUNC, None

    async def main() -> None:
        busy, other = group(2)
        busy.add(200)
        busy.sent(1, 64)
        assert busy.to_relieve() is None
        inbox: Any = Inbox()
        Handover(asyncio.get_running_loop(), 1, other, inbox, [], lambda *_: None)._receive()
        assert busy.to_relieve() == 1

    asyncio.run(main())


def test_a_connection_stays_where_the_inbox_is_full() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while theirs.send(bytes(1 << 16)):
                    pass
            busy = Worker(group(2)[0], 0, [(ours, theirs), (ours, theirs)])
            busy.loads.begin()
            busy.loads.add(5)
            for _ in range(100):
                worker = busy.handover.destination()
                assert worker is not None
                stays, client = socket.socketpair()
                with client:
                    client.sendall(b"stays")
                    busy.handover.hand_over(worker, (0, 0), stays)
                    await busy.came.wait()
                    busy.came.clear()
            assert len(busy.taken) == 100
            assert busy.loads.to_relieve() == 1, "nothing is on its way"

    asyncio.run(main())
