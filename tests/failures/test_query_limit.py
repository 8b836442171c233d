"""`--client-query-limit` applies to every command, collected or streamed, with any bytes."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.conftest import Fleet
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire

pytestmark = pytest.mark.skipif(DIRECT, reason="the limit is Keyrail's own")

LIMIT = 2 << 20
LARGE = (1 << 20) + 1
HUGE = 2**31 - 1
"""Arguments that a command announces: it never ends."""


@pytest.fixture(scope="module")
def keyrail(fleet: Fleet) -> Iterator[Keyrail]:
    keyrail = Keyrail(fleet.engine("valkey-9.1").url, extra=["--client-query-limit", f"{LIMIT}B"])
    yield keyrail
    keyrail.close()


ENDLESS = {
    "small": (b"", b"$1\r\nx\r\n" * 8192),
    "small-behind-a-large-one": (b"$%d\r\n%b\r\n" % (LARGE, b"k" * LARGE), b"$1\r\nx\r\n" * 8192),
    "large": (b"", b"$%d\r\n%b\r\n" % (LARGE, b"k" * LARGE)),
}


def send_up_to(wire: Wire, piece: bytes, most: int) -> None:
    for _ in range(most // len(piece)):
        wire.send(piece)


@pytest.mark.parametrize(
    ("verb", "endless"),
    [*((b"DEL", endless) for endless in ENDLESS), (b"CLIENT", "small-behind-a-large-one"), (b"NOSUCH", "large")],
)
def test_an_endless_command_is_closed(keyrail: Keyrail, verb: bytes, endless: str) -> None:
    first, more = ENDLESS[endless]
    with keyrail.wire() as wire:
        wire.send(b"*%d\r\n$%d\r\n%b\r\n%b" % (HUGE, len(verb), verb, first))
        with pytest.raises((Closed, OSError)):
            send_up_to(wire, more, 16 * LIMIT)
    with keyrail.wire() as wire:
        assert wire.ask("PING") == b"+PONG\r\n"


def test_a_value_that_is_announced_too_large_is_not_waited_for(keyrail: Keyrail) -> None:
    with keyrail.wire() as wire:
        wire.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\nxxx" % LIMIT)
        with pytest.raises((Closed, OSError)):
            wire.frame()


def test_a_command_within_the_limit_is_answered(keyrail: Keyrail) -> None:
    with keyrail.wire() as wire:
        assert wire.ask("SET", "k", b"x" * (LIMIT - 300)) == b"+OK\r\n"
        assert wire.ask("DEL", "k", b"x" * LARGE, b"z") == b":1\r\n"


@pytest.mark.parametrize("first", [b"", b"$%d\r\n%b\r\n" % (LARGE, b"k" * LARGE)], ids=["collected", "streamed"])
def test_many_small_arguments_count_as_the_memory_that_they_take(keyrail: Keyrail, first: bytes) -> None:
    """A twentieth of the limit on the wire."""
    with keyrail.wire() as wire:
        wire.send(b"*%d\r\n$3\r\nDEL\r\n%b" % (HUGE, first))
        with suppress(OSError):
            send_up_to(wire, b"$1\r\nx\r\n" * 8192, LIMIT // 4)
        with pytest.raises((Closed, OSError)):
            wire.frame()
