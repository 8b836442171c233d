"""The pieces come out whole, in order, and once."""

import random

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.upstream.splice import Splice
from proxy.wire.encode import encode_command
from proxy.wire.request import COMPLETE, Request, RequestLimits

LIMITS = RequestLimits(1 << 20, 1 << 29, 1 << 29)
MGET = next(spec.id for spec in STANDARD.specs if spec.name == "MGET")


def test_pieces_come_out_in_order_and_once() -> None:
    splice = Splice()
    assert splice.take() == b""
    splice.put(b"xabcx", 1, 4)
    splice.put(b"", 0, 0)
    splice.put(b"def", 0, 3)
    assert splice.size == 6
    assert splice.take() == b"abcdef"
    assert (splice.size, splice.take()) == (0, b"")


def test_it_grows_with_what_is_put_and_gives_back_what_is_too_much() -> None:
    chance = random.Random(5)
    splice = Splice()
    for most in (100, 40_000, 100, 3_000_000, 10):
        pieces = [chance.randbytes(chance.randrange(most)) for _ in range(5)]
        for piece in pieces:
            splice.put(b"<" + piece + b">", 1, 1 + len(piece))
        assert splice.take() == b"".join(pieces)


def put_prefixed(splice: Splice, names: list[bytes], prefix: bytes, before: bytes = b"") -> None:
    """Put ``MGET`` of these names, without what is behind the last, into the splice."""
    request, data = Request(), before + encode_command([b"MGET", *names, b""])
    assert request.scan(data, len(before), LIMITS) == COMPLETE
    found = STANDARD.keys.find(MGET, request) - 1
    rest = splice.put_prefixed(data, 0, request, STANDARD.keys, found, prefix)
    assert data[rest:] == names[-1] + b"\r\n$0\r\n\r\n"


def prefixed(names: list[bytes], prefix: bytes) -> bytes:
    whole = encode_command([b"MGET", *[prefix + name for name in names], b""])
    return whole.removesuffix(names[-1] + b"\r\n$0\r\n\r\n")


def test_names_get_their_lines_and_prefix_whatever_their_size() -> None:
    splice = Splice()
    sizes = [0, 1, *(10**digits + off for digits in range(1, 6) for off in range(-6, 2))]
    names = [b"n" * size for size in sizes]
    for few in (names, *([name] for name in names)):
        put_prefixed(splice, few, b"acme:", b"before")
        assert splice.take() == b"before" + prefixed(few, b"acme:")


@pytest.mark.parametrize("piece", [16_360, 16_384, 40_000])
def test_it_grows_before_names_too(piece: int) -> None:
    splice = Splice()
    for most in range(piece - 50, piece, 3):
        names = [b"x" * (most // 10), b"x" * (most - most // 10), b"y"]
        put_prefixed(splice, names, b"acme:" * 20)
        assert splice.take() == prefixed(names, b"acme:" * 20)


def test_names_come_one_after_the_other_behind_what_is_kept() -> None:
    splice = Splice()
    splice.put(b"acme:", 0, 5)
    for name in (b"a", b"a longer one", b"", b"x" * 20_000):
        splice.put_behind(5, b"<" + name + b">", 1, 1 + len(name))
        assert splice.size == 5 + len(name)
    assert splice.take() == b"acme:" + b"x" * 20_000


def test_what_was_put_for_a_run_that_broke_off_is_forgotten() -> None:
    splice = Splice()
    splice.put(b"first", 0, 5)
    splice.cut(0)
    splice.put(b"other", 0, 5)
    assert splice.take() == b"other"


def test_what_was_taken_does_not_change_with_what_comes_next() -> None:
    splice = Splice()
    splice.put(b"first", 0, 5)
    taken = splice.take()
    splice.put(b"other", 0, 5)
    assert taken == b"first"
