"""On every engine, no key has more members than its memory allows, as small as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.rules.stored import StoredKey
from proxy.rules.stored_sizes import may_have_over, size_fault
from tests.conftest import Fleet
from tests.resp import Wire

MADE: dict[str, tuple[str, Callable[[int], list[str]]]] = {
    "string": ("SET", lambda count: ["v" * count]),
    "list": ("RPUSH", lambda count: ["1"] * count),
    "set": ("SADD", lambda count: [*map(str, range(count))]),
    "hash": ("HSET", lambda count: [text for i in range(count) for text in (str(i), "1")]),
    "zset": ("ZADD", lambda count: [text for i in range(count) for text in ("1", str(i))]),
}


@pytest.mark.parametrize("count", [1, 20, 120, 500, 20_000])
def test_memory_allows_the_members_that_there_are(fleet: Fleet, engine_name: str, count: int) -> None:
    with Wire(fleet.engine(engine_name).address) as wire:
        wire.ask("FLUSHALL")
        for key_type, (command, members) in MADE.items():
            wire.ask(command, key_type, *members(count))
        for i in range(count):
            wire.ask("XADD", "stream", f"{i + 1}-1", "f", "1")
        for key_type in (*MADE, "stream"):
            memory = int(wire.ask("MEMORY", "USAGE", key_type)[1:])
            assert may_have_over(StoredKey(key_type.encode(), key_type, None, memory), count - 1), (key_type, memory)


@pytest.mark.parametrize("count", [1, 44, 45, 1000, 70_000, 1_048_000, 1_048_600, 3_000_000])
def test_memory_never_proves_more_bytes_than_a_string_has(fleet: Fleet, engine_name: str, count: int) -> None:
    """However it was built: the room for more that APPEND and SETRANGE make is no value."""
    with Wire(fleet.engine(engine_name).address) as wire:
        for name in ("k", "k" * 300):
            for made in ([("SET", name, "v" * count)], [("SET", name, "v"), ("APPEND", name, "v" * (count - 1))]):
                wire.ask("DEL", name)
                for command in made:
                    wire.ask(*command)
                wire.ask("SETRANGE", name, count - 1, "w")
                memory = int(wire.ask("MEMORY", "USAGE", name)[1:])
                key = StoredKey(name.encode(), "string", None, memory)
                assert not (found := size_fault(key, count)) or not found.sure, memory
                few = size_fault(key, (count - (1 << 20) if count > 1 << 21 else count // 2) // 2 - 400)
                assert few is not None
                assert few.sure, memory


def test_memory_allows_the_digits_of_an_integer(fleet: Fleet, engine_name: str) -> None:
    digits = str(-(2**63))
    with Wire(fleet.engine(engine_name).address) as wire:
        wire.ask("SET", "n", digits)
        memory = int(wire.ask("MEMORY", "USAGE", "n")[1:])
    assert may_have_over(StoredKey(b"n", "string", None, memory), len(digits) - 1)
