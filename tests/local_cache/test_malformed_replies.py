"""Whatever comes on a tracking connection, it is read, or the connection is of no use and all who wait are told."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.local_cache.expected import RefusedFillError, RefusedPingError
from proxy.local_cache.frames import OutOfStepError
from tests.local_cache.test_fills import Wire

TEXT = st.binary(max_size=12).map(lambda text: text.replace(b"\r", b"").replace(b"\n", b""))
NUMBER = st.integers().map(lambda number: b"%d" % number) | TEXT
LINE = st.builds(
    lambda kind, text: kind + text + b"\r\n", st.sampled_from([b"+", b"-", b":", b",", b"(", b"#", b"_"]), NUMBER
)
BULK = st.builds(
    lambda kind, text: b"%b%d\r\n%b\r\n" % (kind, len(text), text), st.sampled_from([b"$", b"=", b"!"]), TEXT
)
FRAME = st.recursive(
    LINE | BULK,
    lambda inner: st.builds(
        lambda kind, each: b"%b%d\r\n%b" % (kind, len(each) // (1 + (kind in b"%|")), b"".join(each)),
        st.sampled_from([b"*", b"~", b"%", b">", b"|"]),
        st.lists(inner, max_size=4),
    ),
    max_leaves=6,
)
PUSH = st.builds(lambda frame: b">2\r\n$10\r\ninvalidate\r\n" + frame, FRAME)
SET_FOR_EVER, VALUE = b":-1\r\n", b"$1\r\nv\r\n"


@given(st.integers(0, 3), FRAME | PUSH)
@example(0, b":99999999999999999999\r\n")
@example(1, b"*1\r\n:99999999999999999999\r\n")
@example(0, b",x\r\n")
@example(0, b"%1\r\n*0\r\n+x\r\n")
@example(0, b">2\r\n$10\r\ninvalidate\r\n:5\r\n")
def test_nobody_waits_for_a_reply_that_was_malformed(place: int, frame: bytes) -> None:
    wire = Wire()
    fields, request = (b"a",), b"*3\r\n$5\r\nHMGET\r\n$1\r\nk\r\n$1\r\na\r\n"
    assert wire.begin(request, fields)
    wire.fills.ask(10.0)
    replies = [b":-1\r\n", b"*1\r\n:-1\r\n", b"*1\r\n$1\r\nv\r\n", b"+PONG\r\n"]
    replies[place] = frame
    try:
        wire.fills.receive(b"".join(replies), 10.1)
    except (OutOfStepError, RefusedPingError, RefusedFillError):
        wire.fills.lost()
        wire.fills.tell()
        assert wire.found(10.1, request) is None
    if not frame.startswith((b">", b"|")):
        assert wire.ended == 1
