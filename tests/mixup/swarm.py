"""The mix-up hunt: many clients at once, each of which knows exactly what every one of its replies must be.

A reply that reaches the wrong client is the worst fault of a pooling proxy, and the hardest to see: GET answers `$5
hello` to any client. So every client's commands carry unique tokens, and every reply must carry them back, in order.
Other members disturb them: they leave in the middle of a command or a reply, send garbage, block and are abandoned, and
one kills the upstream connections. A closed connection is no finding (the client connects again); a wrong, missing,
additional or reordered reply is.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tests.resp import PATIENCE_SECONDS, Address, FrameReader, Malformed, pack

LIMIT_SECONDS = 60.0
"""A swarm that has not done what it should by then, on however slow a machine, has a reason other than the machine."""


class Wrong(Exception):
    """A reply that is not the expected one: what the whole hunt is about."""


class Found(Exception):
    """Something is wrong, and the hunt is over."""


class Ended(Exception):
    """The connection was closed: allowed, when somebody kills connections."""


def bulk(text: bytes) -> bytes:
    """The reply that is this text."""
    return b"$%d\r\n%s\r\n" % (len(text), text)


def kind_of(name: str) -> str:
    """The role of a member."""
    return name.partition("-")[0]


def array(*members: bytes) -> bytes:
    """The reply that is an array of these replies."""
    return b"*%d\r\n" % len(members) + b"".join(members)


@dataclass(slots=True)
class Findings:
    """The result of a swarm: wrong replies, and enough figures to know that it was really at work."""

    wrong: list[str] = field(default_factory=list)
    replies: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)
    stuck: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.wrong and not self.stuck


class Client:
    """One connection of one member of the swarm."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float) -> None:
        self.reader, self.writer, self.patience = reader, writer, patience
        self.frames = FrameReader()
        self.sent, self.heard = b"", 0

    def send(self, data: bytes) -> None:
        self.sent, self.heard = data, 0
        self.writer.write(data)

    def __str__(self) -> str:
        """What it has last sent, and what has come since."""
        return f"{self.heard} frames and {self.frames.rest()[:80]!r} behind {self.sent[:1000]!r}"

    async def frame(self) -> bytes:
        while (frame := self.frames.frame()) is None:
            try:
                async with asyncio.timeout(self.patience):
                    data = await self.reader.read(1 << 18)
            except ConnectionError as error:
                raise Ended from error
            if not data:
                raise Ended
            self.frames.feed(data)
        self.heard += 1
        return frame

    async def expect(self, expected: bytes, about: str) -> None:
        """The next frame is this, to the byte. Raises Wrong, Ended or TimeoutError."""
        frame = await self.frame()
        if frame != expected:
            raise Wrong(f"{about}: expected {expected[:120]!r}, got {frame[:200]!r}")

    async def ask(self, commands: Sequence[tuple[bytes, bytes]], about: str) -> None:
        """Send commands in one write, and expect their replies."""
        self.send(b"".join(command for command, _ in commands))
        for _, expected in commands:
            await self.expect(expected, about)

    def leave(self, *, abruptly: bool = False) -> None:
        if abruptly and self.writer.transport is not None:
            self.writer.transport.abort()
        else:
            self.writer.close()


Role = Callable[["Swarm", str, random.Random], Awaitable[None]]


class Swarm:
    """All members, until the time is over and each role has had its share of replies.

    A client that hears nothing for `patience` seconds is stuck. After `limit` seconds more than it was given, the swarm
    ends in any case.
    """

    def __init__(
        self,
        address: Address,
        upstream: Address,
        seed: int = 0,
        *,
        patience: float = PATIENCE_SECONDS,
        limit: float = LIMIT_SECONDS,
    ) -> None:
        self.address, self.upstream = address, upstream
        self.seed, self.patience, self.limit = seed, patience, limit
        self.shares: dict[str, int] = {}
        self.findings = Findings()
        self.deadline = 0.0
        self.open: dict[str, list[Client]] = {}

    @property
    def over(self) -> bool:
        past = asyncio.get_running_loop().time() - self.deadline
        return past > self.limit or (past > 0 and self.served)

    @property
    def served(self) -> bool:
        """Each role has had as many right replies as it should."""
        return all(self.findings.replies[role] >= share for role, share in self.shares.items())

    async def run(
        self, roles: Sequence[tuple[Role, int]], seconds: float, shares: dict[str, int] | None = None
    ) -> Findings:
        """Let `count` members of each role act for so many seconds, and on until each role has as many right replies
        as `shares` says. Stops at the first wrong reply."""
        self.shares = shares or {}
        loop = asyncio.get_running_loop()
        self.deadline = loop.time() + seconds
        try:
            async with asyncio.TaskGroup() as group:
                for role, count in roles:
                    for index in range(count):
                        name = f"{role.__name__}-{index}"
                        group.create_task(self.member(role, name, random.Random(f"{self.seed}-{name}")))
        except* Found:
            pass
        await asyncio.sleep(0.05)  # lets the loop take the connections down that were closed last
        return self.findings

    async def member(self, role: Role, name: str, chance: random.Random) -> None:
        """One member's life: act, and begin again whenever the connection ends."""
        kind = kind_of(name)
        while not self.over:
            try:
                await role(self, name, chance)
            except Ended:
                self.findings.closed[kind] += 1
                await asyncio.sleep(0.01)
            except (Wrong, Malformed) as error:
                self.findings.wrong.append(f"{name}: {error}")
                raise Found from error
            except TimeoutError as error:
                had = "; ".join(map(str, self.open.get(name, [])))
                self.findings.stuck.append(f"{name}: no reply for {self.patience} s: {had}")
                raise Found from error
            except OSError:
                self.findings.closed[kind] += 1
                await asyncio.sleep(0.01)
            finally:
                for client in self.open.pop(name, []):
                    client.leave()

    async def connect(self, name: str, protocol: int = 2, *, upstream: bool = False) -> Client:
        """A new connection of this member: through the proxy, or past it."""
        port = (self.upstream if upstream else self.address).port
        client = Client(*await asyncio.open_connection("127.0.0.1", port), self.patience)
        self.open.setdefault(name, []).append(client)
        if protocol == 3:
            client.send(pack("HELLO", "3"))
            if not (await client.frame()).startswith(b"%"):
                raise Wrong("HELLO 3 was answered with something else")
        return client

    def count(self, name: str, replies: int) -> None:
        """Count this many right replies."""
        self.findings.replies[kind_of(name)] += replies
