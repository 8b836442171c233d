"""The reply walker stops at the end of a frame: every type of RESP2 and RESP3, however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import hiredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.reply import ReplyScanner
from tests.resp import frame_end

FRAMES: dict[str, bytes] = {
    "status": b"+OK\r\n",
    "empty status": b"+\r\n",
    "error": b"-ERR no such key\r\n",
    "integer": b":-42\r\n",
    "bulk string": b"$5\r\nhello\r\n",
    "empty string": b"$0\r\n\r\n",
    "null string": b"$-1\r\n",
    "line ends in a string": b"$6\r\n\r\n+OK\r\r\n",
    "long string": b"$300\r\n" + b"\r\n$1" * 75 + b"\r\n",
    "array": b"*3\r\n:1\r\n$1\r\na\r\n+b\r\n",
    "empty array": b"*0\r\n",
    "null array": b"*-1\r\n",
    "nested arrays": b"*2\r\n*2\r\n*0\r\n*1\r\n:1\r\n*-1\r\n",
    "array of nulls": b"*3\r\n$-1\r\n_\r\n*-1\r\n",
    "null": b"_\r\n",
    "true": b"#t\r\n",
    "double": b",3.14\r\n",
    "infinity": b",-inf\r\n",
    "big number": b"(3492890328409238509324850943850943825024385\r\n",
    "verbatim": b"=7\r\ntxt:abc\r\n",
    "blob error": b"!9\r\nERR\r\nsad!\r\n",
    "map": b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
    "empty map": b"%0\r\n",
    "set": b"~2\r\n:1\r\n:2\r\n",
    "push": b">2\r\n+message\r\n$1\r\nx\r\n",
    "attribute before its reply": b"|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n",
    "attribute inside": b"*2\r\n|1\r\n+ttl\r\n:3\r\n:1\r\n:2\r\n",
    "attribute of an attribute": b"|1\r\n|1\r\n+a\r\n:1\r\n+b\r\n:2\r\n:3\r\n",
    "map in set in array": b"*1\r\n~1\r\n%1\r\n$1\r\nk\r\n=5\r\ntxt:v\r\n",
}
IMPOSSIBLE = [
    b"x\r\n",
    b"\r\n",
    b"OK\r\n",
    b"$\r\n",
    b"$x\r\n",
    b"$-2\r\n",
    b"$1x\r\n",
    b"$?\r\n",
    b"$ 1\r\n",
    b"$1\n",
    b"$1234567890123456789\r\n",
    b"*\r\n",
    b"*1.5\r\n",
    b"*?\r\n",
    b"%-1\r\n",
    b"%x\r\n",
    b"|-1\r\n",
    b"~x\r\n",
    b">x\r\n",
    b"*2\r\n:1\r\nx\r\n",
]


def walk(scanner: ReplyScanner, data: bytes, start: int) -> int:
    return scanner.walk(data, start, len(data))


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("behind", [b"", b"+", b"$5\r\nhe", b"\xff"])
def test_a_frame_ends_where_it_ends(frame: bytes, behind: bytes) -> None:
    scanner = ReplyScanner()
    assert walk(scanner, frame + behind, 0) == len(frame)
    assert (scanner.elements, scanner.bulk) == (0, 0)
    assert walk(scanner, b":1\r\n" + frame + behind, 4) == 4 + len(frame)
    assert scanner.elements == 0


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_can_be_cut_anywhere(frame: bytes) -> None:
    for cut in range(1, len(frame)):
        scanner = ReplyScanner()
        first = walk(scanner, frame[:cut], 0)
        assert 0 <= first <= cut
        assert first == 0 or scanner.elements > 0, "a part was taken for the whole"
        assert walk(scanner, frame[first:] + b"+next\r\n", 0) == len(frame) - first
        assert scanner.elements == 0


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_can_come_byte_by_byte(frame: bytes) -> None:
    scanner = ReplyScanner()
    rest = b""
    for number in range(len(frame)):
        rest += frame[number : number + 1]
        taken = walk(scanner, rest, 0)
        rest = rest[taken:]
        assert (number == len(frame) - 1) == (scanner.elements == 0 and not rest)


@pytest.mark.parametrize("frame", IMPOSSIBLE)
def test_what_is_no_reply_is_out_of_step(frame: bytes) -> None:
    assert walk(ReplyScanner(), frame, 0) == -1


def test_a_header_is_taken_whole_or_not_at_all() -> None:
    scanner = ReplyScanner()
    assert walk(scanner, b"*2\r\n:1\r\n$1", 0) == 8
    assert (scanner.elements, scanner.bulk) == (1, 0)
    assert walk(scanner, b"$1", 0) == 0
    assert (scanner.elements, scanner.bulk) == (1, 0)
    assert walk(scanner, b"$1\r\na", 0) == 5
    assert (scanner.elements, scanner.bulk) == (1, 2)
    assert walk(scanner, b"\r\n", 0) == 2
    assert scanner.elements == 0


lines = st.binary(max_size=6).map(lambda text: text.replace(b"\r", b"").replace(b"\n", b""))
ascii_lines = st.text("abc XYZ.-", max_size=8).map(str.encode)


def bulk(kind: bytes, text: bytes) -> bytes:
    return kind + b"%d\r\n%b\r\n" % (len(text), text)


simple = st.one_of(
    ascii_lines.map(lambda text: b"+" + text + b"\r\n"),
    ascii_lines.map(lambda text: b"-ERR " + text + b"\r\n"),
    st.integers(-(1 << 63), (1 << 63) - 1).map(lambda n: b":%d\r\n" % n),
    st.binary(max_size=12).map(lambda text: bulk(b"$", text)),
    ascii_lines.map(lambda text: bulk(b"=", b"txt:" + text)),
    st.sampled_from(
        [b"$-1\r\n", b"*-1\r\n", b"_\r\n", b"#t\r\n", b"#f\r\n", b",1.5\r\n", b",inf\r\n", b"(12345678901234567890\r\n"]
    ),
)


def containers(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    some = st.lists(inner, max_size=4)
    keys = st.integers(0, 99).map(lambda n: b":%d\r\n" % n)
    return st.one_of(
        some.map(lambda items: b"*%d\r\n" % len(items) + b"".join(items)),
        some.map(lambda items: b"~%d\r\n" % len(items) + b"".join(items)),
        st.lists(st.tuples(keys, inner), max_size=3).map(
            lambda pairs: b"%%%d\r\n" % len(pairs) + b"".join(key + value for key, value in pairs)
        ),
    )


frames = st.recursive(simple, containers, max_leaves=12)


@settings(max_examples=100)
@given(st.lists(frames, min_size=1, max_size=4))
def test_each_frame_is_one_reply_to_an_independent_reader(sent: list[bytes]) -> None:
    # hiredis loses much of what a frame says (three nulls are one to it), but it knows where one ends.
    stream = b"".join(sent)
    scanner = ReplyScanner()
    position = 0
    for frame in sent:
        end = walk(scanner, stream, position)
        assert stream[position:end] == frame
        reader = hiredis.Reader(notEnoughData=Ellipsis)
        reader.feed(stream[position:end])
        assert reader.gets() is not Ellipsis
        assert reader.gets() is Ellipsis
        assert not reader.has_data()
        position = end
    assert position == len(stream)


@settings(max_examples=100)
@given(
    st.lists(
        st.recursive(
            simple,
            lambda inner: (
                containers(inner) | st.tuples(inner, inner, inner).map(lambda three: b"|1\r\n" + b"".join(three))
            ),
        ),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_frames_cut_in_any_way_end_where_a_second_reading_ends_them(sent: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(sent)
    places = sorted({0, len(stream), *data.draw(st.lists(st.integers(0, len(stream)), max_size=6))})
    scanner = ReplyScanner()
    ends: list[int] = []
    position = 0
    for _, arrived in pairwise(places):
        while position < arrived:
            n = scanner.walk(stream[:arrived], position, arrived)
            assert n >= position
            if n == position:
                break
            position = n
            if scanner.elements == 0:
                ends.append(position)
    expected: list[int] = []
    while not expected or expected[-1] < len(stream):
        expected.append(frame_end(stream, expected[-1] if expected else 0))
    assert ends == expected


@settings(max_examples=200)
@given(st.binary(max_size=40) | st.text("*$>%~|+-:_#,(=!0123\r\nx", max_size=40).map(str.encode))
def test_no_bytes_are_too_odd(stream: bytes) -> None:
    scanner = ReplyScanner()
    position = 0
    while position < len(stream):
        n = walk(scanner, stream, position)
        if n == -1 or n == position:
            break
        assert position < n <= len(stream)
        position = n


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n", len(b"*3\r\n$7\r\nmessage\r\n")),
        (b">2\r\n$10\r\ninvalidate\r\n*1\r\n", len(b">2\r\n$10\r\ninvalidate\r\n")),
        (b"*2\r\n:1\r\n:2\r\n", 0),
        (b"*-1\r\n", 0),
        (b"*0\r\n", 0),
        (b"*1\r\n$1\r\na\r\n", 0),
        (b"*2\r\n$99\r\n" + b"x" * 99, 0),
    ],
)
def test_the_first_word_of_an_aggregate_ends_where_it_is_known(data: bytes, end: int) -> None:
    scanner = ReplyScanner()
    assert scanner.first_word_end(b"+before\r\n" + data, 9, 9 + len(data)) == (end + 9 if end else 0)
    for size in range(min(end, len(data))):
        assert scanner.first_word_end(data, 0, size) == -2
    assert scanner.elements == 0


def test_a_frame_that_is_wanted_whole_begins_anew_until_it_is() -> None:
    scanner, frame = ReplyScanner(), b"*2\r\n$3\r\nabc\r\n:1\r\n"
    for size in range(len(frame)):
        assert scanner.whole(frame, 0, size) == -2
        assert (scanner.elements, scanner.bulk) == (0, 0)
    assert scanner.whole(frame + b"+next\r\n", 0, len(frame) + 7) == len(frame)
    assert ReplyScanner().whole(b"?\r\n", 0, 3) == -1


NOTHING = [
    b"$-1\r\n",
    b"$0\r\n\r\n",
    b"_\r\n",
    b":0\r\n",
    b":-1\r\n",
    b":-2\r\n",
    b"+none\r\n",
    b"-NOGROUP No such key 'k' or consumer group 'g'\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"~0\r\n",
    b"%0\r\n",
]
SOMETHING = [
    b":1\r\n",
    b":-3\r\n",
    b":10\r\n",
    b":20\r\n",
    b"+OK\r\n",
    b"+nonE\r\n",
    b"$1\r\n0\r\n",
    b"$4\r\nnone\r\n",
    b",0\r\n",
    b"#t\r\n",
    b"*1\r\n:7\r\n",
    b"%1\r\n$1\r\na\r\n_\r\n",
]


def aggregate(kind: bytes, elements: list[bytes]) -> bytes:
    count = len(elements) // 2 if kind == b"%" else len(elements)
    return kind + b"%d\r\n" % count + b"".join(elements[: 2 * count] if kind == b"%" else elements)


def nested(leaves: list[bytes]) -> st.SearchStrategy[bytes]:
    kinds = st.sampled_from([b"*", b"~", b"%"])
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.builds(aggregate, kinds, st.lists(inner, max_size=4)),
        max_leaves=8,
    )


@given(nested(NOTHING), st.sampled_from([b"", b"+", b"$5\r\nhe", b"\xff"]))
def test_a_frame_that_says_nothing_ends_where_it_ends(frame: bytes, behind: bytes) -> None:
    assert ReplyScanner().nothing_end(b"+x\r\n" + frame + behind, 4, 4 + len(frame + behind)) == 4 + len(frame)
    for cut in range(len(frame)):
        assert ReplyScanner().nothing_end(frame, 0, cut) == -2


@given(nested(NOTHING), st.sampled_from(SOMETHING), nested(NOTHING))
def test_a_frame_with_something_in_it_says_something(before: bytes, leaf: bytes, behind: bytes) -> None:
    frame = aggregate(b"*", [before, leaf, behind])
    assert ReplyScanner().nothing_end(frame, 0, len(frame)) == 0
    assert ReplyScanner().nothing_end(leaf, 0, len(leaf)) == 0
