"""The request scanner finds exactly the requests that Redis would run, however their bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import hiredis
import pytest
from hiredis import pack_command
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire import request as wire
from proxy.wire.request import COMPLETE, EMPTY, INLINE, LARGE, MALFORMED, NEED_MORE, Request, RequestLimits

WIDE = RequestLimits((1 << 31) - 1, 512 << 20, 1 << 20)
STRANGER = RequestLimits((1 << 31) - 1, 512 << 20, 1 << 20, authenticated=False)
OLD = RequestLimits(1 << 20, 512 << 20, 1 << 20)

WHOLE: dict[str, tuple[bytes, list[bytes]]] = {
    "one argument": (b"*1\r\n$4\r\nPING\r\n", [b"PING"]),
    "several": (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n", [b"SET", b"k", b"value"]),
    "empty strings": (b"*2\r\n$0\r\n\r\n$0\r\n\r\n", [b"", b""]),
    "CR LF within a string": (b"*2\r\n$4\r\nECHO\r\n$6\r\n\r\n$1\r\n\r\n", [b"ECHO", b"\r\n$1\r\n"]),
    "a request within a string": (b"*1\r\n$14\r\n*1\r\n$4\r\nPING\r\n\r\n", [b"*1\r\n$4\r\nPING\r\n"]),
    "every byte": (b"*1\r\n$256\r\n" + bytes(range(256)) + b"\r\n", [bytes(range(256))]),
    "more arguments than there is room for at first": (
        b"*130\r\n" + b"".join(b"$3\r\n%03d\r\n" % i for i in range(130)),
        [b"%03d" % i for i in range(130)],
    ),
}
NOTHING = {"no arguments": b"*0\r\n", "minus one": b"*-1\r\n", "less than nothing": b"*-123456789012345678\r\n"}
LINES = {
    "a word": b"PING\r\n",
    "a lone line feed": b"PING\n",
    "a blank line": b"\r\n",
    "what would be a reply": b"+GET a\r\n",
    "another reply": b"$3\r\n",
    "a carriage return inside": b"a\rb\r\n",
}
BROKEN: dict[str, tuple[bytes, int, int]] = {
    "no number of arguments": (b"*\r\n", wire.INVALID_MULTIBULK_LENGTH, 0),
    "a word for it": (b"*x\r\n", wire.INVALID_MULTIBULK_LENGTH, 0),
    "a plus sign": (b"*+1\r\n", wire.INVALID_MULTIBULK_LENGTH, 0),
    "a space": (b"* 1\r\n", wire.INVALID_MULTIBULK_LENGTH, 0),
    "a leading zero": (b"*01\r\n", wire.INVALID_MULTIBULK_LENGTH, 0),
    "minus nothing": (b"*-\r\n", wire.INVALID_MULTIBULK_LENGTH, 0),
    "minus zero": (b"*-0\r\n", wire.INVALID_MULTIBULK_LENGTH, 0),
    "minus a leading zero": (b"*-01\r\n", wire.INVALID_MULTIBULK_LENGTH, 0),
    "more arguments than an int holds": (b"*2147483648\r\n", wire.INVALID_MULTIBULK_LENGTH, 0),
    "more digits than a number has": (b"*99999999999999999999\r\n", wire.INVALID_MULTIBULK_LENGTH, 0),
    "no line feed behind the number": (b"*1\rx", wire.EXPECTED_CRLF, ord("x")),
    "a number for a string": (b"*1\r\n:4\r\n", wire.EXPECTED_DOLLAR, ord(":")),
    "an array in an array": (b"*1\r\n*1\r\n", wire.EXPECTED_DOLLAR, ord("*")),
    "a line end for a string": (b"*1\r\n\r\n", wire.EXPECTED_DOLLAR, ord("\r")),
    "a second argument of another kind": (b"*2\r\n$1\r\na\r\nb\r\n", wire.EXPECTED_DOLLAR, ord("b")),
    "no length": (b"*1\r\n$\r\n", wire.INVALID_BULK_LENGTH, 0),
    "a null string": (b"*1\r\n$-1\r\n", wire.INVALID_BULK_LENGTH, 0),
    "a length with a leading zero": (b"*1\r\n$01\r\n", wire.INVALID_BULK_LENGTH, 0),
    "a length that is none": (b"*1\r\n$1x\r\n", wire.INVALID_BULK_LENGTH, 0),
    "a length over the limit": (b"*1\r\n$536870913\r\n", wire.INVALID_BULK_LENGTH, 0),
    "a length of too many digits": (b"*1\r\n$99999999999999999999\r\n", wire.INVALID_BULK_LENGTH, 0),
    "no line feed behind the length": (b"*1\r\n$1\rx", wire.EXPECTED_CRLF, ord("x")),
    "a string longer than announced": (b"*1\r\n$1\r\nabc", wire.EXPECTED_CRLF, ord("b")),
    "a string whose line end is broken": (b"*1\r\n$1\r\na\r\r", wire.EXPECTED_CRLF, ord("\r")),
}


def scan(*pieces: bytes, limits: RequestLimits = WIDE, before: bytes = b"") -> tuple[int, Request]:
    """Scan a request that arrives in pieces, behind bytes that were read before; it must ask for every piece."""
    request = Request()
    data = bytearray(before)
    code = NEED_MORE
    for number, piece in enumerate(pieces):
        assert code == NEED_MORE, f"said {code} before piece {number} came"
        data += piece
        code = request.resume(data, limits) if number else request.scan(data, len(before), limits)
    return code, request


def cuts(data: bytes) -> list[list[bytes]]:
    """The data whole, byte by byte, and in two at every place."""
    return [[data], [data[i : i + 1] for i in range(len(data))], *([data[:i], data[i:]] for i in range(1, len(data)))]


@pytest.mark.parametrize("name", WHOLE)
def test_a_request_is_found_however_it_is_cut(name: str) -> None:
    data, argv = WHOLE[name]
    for pieces in cuts(data):
        code, request = scan(*pieces)
        assert code == COMPLETE
        assert request.arguments() == argv
        assert [request.argument(i) for i in range(request.argc)] == argv
        assert (request.start, request.end) == (0, len(data))


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("behind", [b"*", b"*1\r\n$4\r\nPING\r\n", b"\r\n", b"\x00\xff"])
def test_what_stands_before_and_behind_a_request_is_not_touched(name: str, behind: bytes) -> None:
    data, argv = WHOLE[name]
    for before in (b"", b"*9\r\n$", b"PING\r\n"):
        code, request = scan(data + behind, before=before)
        assert code == COMPLETE
        assert request.arguments() == argv
        assert request.end == len(before) + len(data)
        assert request.header_end == len(before) + data.index(b"\n") + 1


@pytest.mark.parametrize("data", NOTHING.values(), ids=NOTHING)
def test_an_array_of_nothing_is_no_request(data: bytes) -> None:
    for pieces in cuts(data):
        code, request = scan(*pieces)
        assert (code, request.end) == (EMPTY, len(data))


@pytest.mark.parametrize("data", LINES.values(), ids=LINES)
def test_anything_but_an_array_is_a_line(data: bytes) -> None:
    for pieces in cuts(data):
        code, request = scan(*pieces)
        assert (code, request.end) == (INLINE, len(data))


@pytest.mark.parametrize("name", BROKEN)
def test_a_protocol_error_is_told_by_its_kind(name: str) -> None:
    data, error, byte = BROKEN[name]
    code, request = scan(data)
    assert (code, request.error) == (MALFORMED, error)
    if error in (wire.EXPECTED_DOLLAR, wire.EXPECTED_CRLF):
        assert request.error_byte == byte


@pytest.mark.parametrize("name", BROKEN)
def test_a_protocol_error_is_the_same_however_it_is_cut(name: str) -> None:
    data, error, _ = BROKEN[name]
    for i in range(1, len(data)):
        request = Request()
        code = request.scan(data[:i], 0, WIDE)
        if code == NEED_MORE:
            code = request.resume(data, WIDE)
        assert (code, request.error) == (MALFORMED, error)


@pytest.mark.parametrize(
    ("limits", "data", "error"),
    [
        (STRANGER, b"*11\r\n", wire.UNAUTHENTICATED_MULTIBULK_LENGTH),
        (STRANGER, b"*1\r\n$16385\r\n", wire.UNAUTHENTICATED_BULK_LENGTH),
        (OLD, b"*1048577\r\n", wire.INVALID_MULTIBULK_LENGTH),
    ],
)
def test_limits_hold_before_anything_is_collected(limits: RequestLimits, data: bytes, error: int) -> None:
    code, request = scan(data, limits=limits)
    assert (code, request.error) == (MALFORMED, error)
    assert scan(data, limits=WIDE)[0] == NEED_MORE


def test_what_an_unauthenticated_client_may_send_passes() -> None:
    argv = [b"x" * 16384] * 10
    code, request = scan(pack_command(tuple(argv)), limits=STRANGER)
    assert code == COMPLETE
    assert request.arguments() == argv


def test_a_line_without_an_end_is_refused_at_64_kilobytes() -> None:
    most = b"x" * 65536
    assert scan(most)[0] == NEED_MORE
    assert (scan(most + b"x")[0], scan(most + b"x")[1].error) == (MALFORMED, wire.TOO_BIG_INLINE)
    assert scan(most + b"\n")[0] == INLINE


@pytest.mark.parametrize(
    ("before", "error"),
    [(b"*x", wire.TOO_BIG_MULTIBULK_COUNT), (b"*1\r\n$x", wire.TOO_BIG_BULK_COUNT)],
)
def test_a_broken_header_is_told_when_its_end_has_come_or_64_kilobytes_without_it(before: bytes, error: int) -> None:
    assert scan(before)[0] == NEED_MORE
    assert scan(before + b"x" * 1000)[0] == NEED_MORE
    code, request = scan(before + b"x" * 65536)
    assert (code, request.error) == (MALFORMED, error)


def test_a_large_string_is_told_as_soon_as_its_length_is_known() -> None:
    limits = RequestLimits(1 << 20, 512 << 20, 10)
    head = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$11\r\n"
    for arrived in (b"", b"hello", b"hello world", b"hello world\r"):
        code, request = scan(head + arrived, limits=limits)
        assert code == LARGE
        assert request.arguments() == [b"SET", b"k"]
        assert (request.expected, request.bulk, request.position) == (3, 11, len(head))
    code, request = scan(head + b"hello world\r\n", limits=limits)
    assert code == COMPLETE
    assert request.arguments() == [b"SET", b"k", b"hello world"]
    assert scan(head.replace(b"$11", b"$10") + b"hello", limits=limits)[0] == NEED_MORE


def test_nothing_is_reserved_for_what_is_only_announced() -> None:
    code, request = scan(b"*2147483647\r\n$536870912\r\n")
    assert code == LARGE
    assert request.capacity <= 64


def test_room_that_one_huge_request_took_is_given_back() -> None:
    request = Request()
    assert request.scan(pack_command((b"a",) * 100_000), 0, WIDE) == COMPLETE
    assert request.arguments() == [b"a"] * 100_000
    assert request.scan(b"*1\r\n$4\r\nPING\r\n", 0, WIDE) == COMPLETE
    assert request.capacity <= 64
    assert request.arguments() == [b"PING"]


def test_arguments_that_are_apart_already_make_a_request() -> None:
    request = Request.from_argv([b"SET", b"", b"v" * 200])
    assert request.arguments() == [b"SET", b"", b"v" * 200]
    assert request.argument(1) == b""
    for index in (-1, 3):
        with pytest.raises(IndexError):
            request.argument(index)


argvs = st.lists(st.binary(max_size=20), min_size=1, max_size=8)


@settings(max_examples=60)
@given(st.lists(argvs, min_size=1, max_size=5), st.data())
def test_requests_come_out_as_they_went_in(sent: list[list[bytes]], data: st.DataObject) -> None:
    stream = b"".join(pack_command(tuple(argv)) for argv in sent)
    places = sorted({0, len(stream), *data.draw(st.lists(st.integers(0, len(stream)), max_size=5))})
    request = Request()
    found: list[list[bytes]] = []
    arrived = b""
    position = 0
    resuming = False
    for start, end in pairwise(places):
        arrived += stream[start:end]
        while True:
            code = request.resume(arrived, WIDE) if resuming else request.scan(arrived, position, WIDE)
            resuming = code == NEED_MORE
            if resuming:
                break
            assert code == COMPLETE
            found.append(request.arguments())
            position = request.end
    assert found == sent


@settings(max_examples=150)
@given(st.lists(argvs, max_size=3), st.binary(max_size=12), st.data())
def test_whatever_is_complete_says_the_same_to_an_independent_reader(
    sent: list[list[bytes]], noise: bytes, data: st.DataObject
) -> None:
    stream = bytearray(b"".join(pack_command(tuple(argv)) for argv in sent))
    at = data.draw(st.integers(0, len(stream)))
    stream[at : at + data.draw(st.integers(0, 4))] = noise
    assert_reads_safely(bytes(stream))


@settings(max_examples=150)
@given(st.binary(max_size=60) | st.text("*$0123456789-+\r\nxG", max_size=40).map(str.encode))
def test_no_bytes_are_too_odd(stream: bytes) -> None:
    assert_reads_safely(stream)


def assert_reads_safely(stream: bytes) -> None:
    """Every request that the scanner finds is there; it ends; and it stays within what has arrived."""
    request = Request()
    position = 0
    while True:
        code = request.scan(stream, position, WIDE)
        assert request.start == position
        if code in (NEED_MORE, LARGE, MALFORMED):
            return
        assert position < request.end <= len(stream)
        if code == COMPLETE:
            reader = hiredis.Reader()
            reader.feed(stream[position : request.end])
            assert reader.gets() == request.arguments()
            assert reader.gets() is False
        position = request.end
