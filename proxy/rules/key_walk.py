"""A walk over the names of all keys that match a pattern, with SCAN, which does not block other clients.

Redis answers KEYS and its like at once, and blocks all clients meanwhile; SCAN visits a few keys at a time. A walk has
a budget, since it takes time and what it finds is kept in memory. SCAN only guarantees the keys that exist during the
whole walk, and may name a key twice.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

import hiredis

from proxy.commands.error_texts import PROBE_FORBIDDEN
from proxy.rules.verdict import Answer
from proxy.wire.decode import read_reply

T = TypeVar("T")

Walk: TypeAlias = Generator[Sequence[Sequence[bytes]], Sequence[bytes], T]
"""A part of ``Steps``: yields commands to send together, gets their reply frames."""

_GLOB = b"*?[\\"


@dataclass(frozen=True, slots=True)
class WalkBudget:
    """The most keys that are kept, their bytes, and seconds; `count` is the COUNT of each step."""

    keys: int = 10_000
    bytes: int = 1 << 20
    time: int = 2
    count: int = 500


class Stopped(NamedTuple):
    """Why a walk has no result, for a refusal; or an `error` of Redis's state, such as LOADING, for the client."""

    why: str
    error: bytes = b""

    def end(self, refuse: Callable[[str], T]) -> T | Answer:
        """What the command ends with."""
        return Answer(self.error) if self.error else refuse(self.why)


def walk(pattern: bytes, count: int, page: Callable[[list[bytes]], str]) -> Walk[Stopped | None]:
    """Give ``page`` the names of each page, until it returns why to stop."""
    cursor = b"0"
    while True:
        (frame,) = yield [(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"%d" % count)]
        reply = read_reply(frame)
        if isinstance(reply, hiredis.ReplyError):
            return failed(frame, "SCAN")
        cursor, names = reply
        why = page(names)
        if why:
            return Stopped(why)
        if cursor == b"0":
            return None


def find_keys(pattern: bytes, budget: WalkBudget) -> Walk[list[bytes] | Stopped]:
    """All keys that match, each once. A pattern that can match only one name is looked up with EXISTS."""
    if not any(byte in pattern for byte in _GLOB):
        (frame,) = yield [(b"EXISTS", pattern)]
        there = read_reply(frame)
        if isinstance(there, hiredis.ReplyError):
            return failed(frame, "EXISTS for it")
        return [pattern] * there
    found: dict[bytes, None] = {}
    size = 0

    def page(names: list[bytes]) -> str:
        nonlocal size
        fresh = [name for name in dict.fromkeys(names) if name not in found]
        found.update(dict.fromkeys(fresh))
        size += sum(map(len, fresh))
        if len(found) > budget.keys:
            return f"more than {budget.keys} keys match"
        return f"the names that match have more than {budget.bytes} bytes" if size > budget.bytes else ""

    return (yield from walk(pattern, budget.count, page)) or list(found)


def failed(error: bytes, asked: str) -> Stopped:
    """Redis has not answered what Keyrail ``asked``. Errors of its state (LOADING, BUSY …) are forwarded; one about a
    forbidden command that the client has not sent would mislead."""
    return Stopped(f"this user may not run {asked}") if PROBE_FORBIDDEN.begin(error) else Stopped("", error)
