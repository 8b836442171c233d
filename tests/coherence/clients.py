"""Connections that read and write cached keys, and record what they have sent and got."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.coherence import reads, writes
from tests.coherence.book import Book, Slot
from tests.coherence.history import Read, Trail, Version
from tests.coherence.reads import Choice, Reading, seen
from tests.coherence.writes import Writing
from tests.mixup.swarm import Client, Ended
from tests.resp import PATIENCE_SECONDS, Address, Failure, Value, decode, pack

NOTES = b"notes"
"""The channel of messages behind writes."""


@dataclass(slots=True)
class Swarm:
    """All clients. ``addresses`` are the ways to Redis; connections of each client go to one of them, and those to
    ``readers`` write nothing.

    ``operations`` counts reads and writes by how they are done. A reply that begins with one of the ``refusals`` ends
    the connection, and counts as none.
    """

    addresses: Sequence[Address]
    book: Book
    writings: dict[writes.Way, float]
    readings: dict[reads.Way, int] = field(default_factory=lambda: dict(reads.READS))
    seed: int = 1
    write_share: float = 0.08
    readers: Sequence[Address] = ()
    trails: list[Trail] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    refusals: tuple[bytes, ...] = ()
    closed: int = 0
    over: bool = False
    notes: list[list[Version]] = field(default_factory=list)
    _progress: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(
        self, operations: int, clients: int = 16, beside: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Let clients act until so many operations are done, and ``beside`` has ended."""
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(self._life(f"client-{number}", self._reads_and_writes))
            for number in range(len(self.addresses)):
                group.create_task(self._life(f"subscriber-{number}", self._waits_for_messages))
            if beside is not None:
                await beside()
            await self._until_done(operations)
            self.over = True

    async def more(self, operations: int) -> None:
        """Wait until clients have done so many more."""
        await self._until_done(self.operations.total() + operations)

    async def _until_done(self, operations: int) -> None:
        while self.operations.total() < operations:
            self._progress.clear()
            await self._progress.wait()

    async def _life(self, name: str, act: Callable[[str, Address, Choice], Awaitable[None]]) -> None:
        number = int(name.partition("-")[2])
        address = self.addresses[number % len(self.addresses)]
        choice = Choice(random.Random(f"{self.seed}-{name}"))
        while not self.over:
            try:
                await act(f"{name} of port {address.port}", address, choice)
            except (Ended, ConnectionError):
                self.closed += 1
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def connection(self, address: Address, protocol: int) -> AsyncIterator[Client]:
        client = Client(*await asyncio.open_connection("127.0.0.1", address.port), PATIENCE_SECONDS)
        try:
            if protocol == 3:
                client.send(pack("HELLO", "3"))
                await client.frame()
            yield client
        finally:
            client.leave()
            with contextlib.suppress(OSError):
                await client.writer.wait_closed()

    def trail(self, name: str) -> Trail:
        """What a new connection does."""
        self.trails.append(Trail(f"{name}, connection {len(self.trails)}"))
        return self.trails[-1]

    # Clients that read and write

    async def _reads_and_writes(self, name: str, address: Address, choice: Choice) -> None:
        write_share = 0.0 if address in self.readers else self.write_share
        async with self.connection(address, choice.chance.choice((2, 3))) as client:
            trail = self.trail(name)
            for _ in range(choice.chance.choice((5, 200))):
                if self.over:
                    return
                await self._pipeline(client, trail, choice, write_share)

    async def _pipeline(self, client: Client, trail: Trail, choice: Choice, write_share: float) -> None:
        size = choice.chance.choice((1, 1, 1, 2, 4, 10))
        writing = [choice.chance.random() < write_share for _ in range(size)]
        if not any(writing):
            await self._exchange(client, trail, [self._reading(choice) for _ in writing])
            return
        async with contextlib.AsyncExitStack() as locks:
            # Which keys it writes is chosen before they are locked, and their slots may have other keys by then.
            ways = choice.chance.choices(list(self.writings), list(self.writings.values()), k=sum(writing))
            state = choice.chance.getstate()
            slots = {slot.number: slot for way in ways for slot in way(self.book, choice).slots}
            for number in sorted(slots):
                await locks.enter_async_context(slots[number].lock)
            choice.chance.setstate(state)
            written = [way(self.book, choice) for way in ways]
            assert {slot.number for each in written for slot in each.slots} <= slots.keys()
            left = iter(written)
            await self._exchange(client, trail, [next(left) if write else self._reading(choice) for write in writing])
        await self._tell(client, trail, choice)

    def _reading(self, choice: Choice) -> Reading:
        (way,) = choice.chance.choices(list(self.readings), list(self.readings.values()))
        return way(self.book, choice)

    async def _exchange(self, client: Client, trail: Trail, pipeline: Sequence[Reading | Writing]) -> None:
        loop = asyncio.get_running_loop()
        sent = loop.time()
        client.send(b"".join(each.request for each in pipeline))
        for number, each in enumerate(pipeline):
            try:
                replies = await self._replies(client, each.replies if isinstance(each, Reading) else len(each.commands))
            except BaseException:
                self._unanswered(pipeline[number:], sent)
                raise
            if isinstance(each, Reading):
                trail.events += [Read(*told, sent, loop.time(), each.how) for told in each.tell(replies)]
            else:
                trail.events += each.learn(replies[-1], sent, loop.time())
            self.operations[each.how] += 1
            self._progress.set()

    async def _replies(self, client: Client, count: int) -> list[Value]:
        found = [decode(await client.frame()) for _ in range(count)]
        if any(isinstance(each, Failure) and each.text.startswith(self.refusals) for each in found):
            raise Ended("refused")
        return found

    def _unanswered(self, pipeline: Sequence[Reading | Writing], sent: float) -> None:
        """The slots go on with other keys. What may have run may run much later."""
        lost: dict[int, Slot] = {}
        for each in pipeline:
            if not isinstance(each, Writing):
                continue
            if len(each.slots) == len(self.book.slots):
                self.book.everything_unknown(sent)
            for slot in each.slots:
                repeated = slot.number in lost
                lost[slot.number] = slot
                if slot.key not in each.may or repeated or each.unsure:
                    slot.key.unknown(sent)
            for key, values in each.may.items():
                for field_name, value in values.items():
                    key.registers[field_name].write(Version(value, sent))
        for slot in lost.values():
            self.book.abandon(slot)

    # Messages behind writes

    async def _tell(self, client: Client, trail: Trail, choice: Choice) -> None:
        """A message behind what the connection has written last."""
        if choice.chance.random() < 0.3 or not trail.events:
            return
        versions = [event.version for event in trail.events[-12:] if not isinstance(event, Read)]
        self.notes.append(versions)
        client.send(pack("PUBLISH", NOTES, len(self.notes) - 1))
        await client.frame()
        self._told(len(self.notes) - 1)

    def _told(self, note: int) -> None:
        now = asyncio.get_running_loop().time()
        for version in self.notes[note]:
            version.published = min(version.published, now)

    async def _waits_for_messages(self, name: str, address: Address, choice: Choice) -> None:
        """Read all keys of which a message tells, on another connection, as soon as it has come."""
        async with self.connection(address, 3) as subscriber, self.connection(address, 2) as reader:
            trail = self.trail(name)
            subscriber.send(pack("SUBSCRIBE", NOTES))
            await subscriber.frame()
            while not self.over:
                try:
                    async with asyncio.timeout(0.1):
                        _, _, note = _message(decode(await subscriber.frame()))
                except TimeoutError:
                    continue
                self._told(int(note))
                await self._exchange(reader, trail, [_strings(self.book)])


def _message(frame: Value) -> tuple[Value, Value, bytes]:
    match frame:
        case [kind, channel, bytes() as text]:
            return kind, channel, text
    raise AssertionError(f"no message: {frame!r}")


def _strings(book: Book) -> Reading:
    """GET of the strings that are read most often, each a command of its own."""
    keys = [slot.key for slot in book.slots_of("string")][:6]
    registers = [key.registers[b""] for key in keys]
    return Reading(
        "GET behind a message",
        b"".join(pack("GET", key.name) for key in keys),
        len(keys),
        lambda replies: [(register, seen(value)) for register, value in zip(registers, replies, strict=True)],
    )
