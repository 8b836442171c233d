"""No push of a server reaches a client but those that are about its own subscriptions and tracking, and no attribute.

A server could call clients away from Keyrail by others (``MOVING``). They may come at any place where a server can send
one, cut in any way, and on each kind of connection: shared, private, subscribed, monitoring, with a cluster upstream.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.session.subscription import Subscriptions
from proxy.wire.reply import PUSHES
from tests.hotpath.bench import ERROR, OK, PIPELINE, Bench, confirmation, heard, message
from tests.resp import decode, frame_end

ALLOWED = {
    *(b"message", b"pmessage", b"smessage", b"subscribe", b"psubscribe", b"ssubscribe"),
    *(b"unsubscribe", b"punsubscribe", b"sunsubscribe", b"invalidate", b"tracking-redir-broken"),
}


OUT_OF_STEP = "out of step"


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def push(name: bytes, *others: bytes) -> bytes:
    return b">%d\r\n" % (1 + len(others)) + bulk(name) + b"".join(others)


words = st.sampled_from(sorted(ALLOWED)) | st.sampled_from(
    [b"MOVING", b"moving", b"MIGRATING", b"FAILING_OVER", b"message\0", b"MESSAGE", b"messag", b"", b"x" * 100]
)
elements = st.sampled_from(
    [bulk(b"a"), bulk(b"host:6379"), b":1\r\n", b"_\r\n", b"*1\r\n" + bulk(b"k"), b"%1\r\n+a\r\n:2\r\n"]
)
odd = st.sampled_from(
    [
        b">1\r\n$6\r\nMOVING\r\n",
        b">2\r\n+MOVING\r\n:1\r\n",
        b">0\r\n",
        b">2\r\n:1\r\n:2\r\n",
        b">2\r\n*1\r\n+message\r\n:1\r\n",
    ]
)
pushes = st.builds(lambda name, others: push(name, *others), words, st.lists(elements, min_size=1, max_size=3)) | odd
attributes = st.sampled_from(
    [
        b"|0\r\n",
        b"|1\r\n+ttl\r\n:1\r\n",
        b"|2\r\n" + bulk(b"a") + b"*2\r\n:1\r\n:2\r\n" + bulk(b"b") + b"%1\r\n:1\r\n:2\r\n",
    ]
)
frames = st.sampled_from(
    [
        OK,
        ERROR,
        bulk(b"v" * 40),
        b"*2\r\n:1\r\n" + bulk(b">2"),
        b"*0\r\n",
        b"_\r\n",
        b"%1\r\n+a\r\n*1\r\n:2\r\n",
        bulk(b"|1"),
    ]
)
actions = st.sampled_from(["forward", "forward", "edit", "hide", "note", "peek", "members"])
between = st.lists(pushes | attributes, max_size=2)
sizes = st.lists(st.integers(1, 30), min_size=1, max_size=6)


def name_of(frame: bytes) -> bytes | None:
    """The first element of a push with several, if it is a bulk string."""
    found = frame.split(b"\r\n", 3)
    return found[2] if int(found[0][1:]) > 1 and found[1].startswith(b"$") else None


def passes(frame: bytes) -> bool:
    return frame.startswith(b">") and name_of(frame) in ALLOWED


def receive(bench: Bench, stream: bytes, cuts: list[int]) -> None:
    position = turn = 0
    while position < len(stream) and OUT_OF_STEP not in bench.events:
        size = cuts[turn % len(cuts)]
        bench.upstream.receive(stream[position : position + size])
        position, turn = position + size, turn + 1


def queue(bench: Bench, client: Any, action: str, frame: bytes) -> bytes:
    """Expect a reply; what the client gets of it."""
    upstream = bench.upstream
    if action == "forward":
        upstream.send_run(client, b"x", 1)
        return frame
    payload: dict[str, Any] = {"edit": lambda got: b"<" + got + b">", "members": {}}
    upstream.enqueue(client, 1, getattr(PIPELINE, action.upper()), payload.get(action, lambda _: None))
    return {"hide": b"", "note": b"", "edit": b"<" + frame + b">"}.get(action, frame)


def test_the_closed_list_is_the_one_that_was_decided() -> None:
    assert PUSHES == ALLOWED


@settings(max_examples=150)
@given(st.lists(st.tuples(between, actions, frames), max_size=8), between, sizes, st.booleans())
def test_of_what_comes_between_replies_only_listed_pushes_pass(
    program: list[tuple[list[bytes], str, bytes]], last: list[bytes], cuts: list[int], private: bool
) -> None:
    bench = Bench(PIPELINE)
    client = bench.client()
    if private:
        bench.upstream.owner = client
    stream, expected, dropped = b"", b"", 0
    for interjected, action, frame in [*program, (last, "", b"")]:
        for each in interjected:
            stream += each
            expected += each if private and passes(each) else b""
            dropped += each.startswith(b">") and not (private and passes(each))
        stream += frame
        expected += queue(bench, client, action, frame) if action else b""
    receive(bench, stream, cuts)
    assert bench.events == []
    assert heard(client) == expected
    assert (bench.upstream.strays, client.pending_replies, bench.pending_replies()) == (dropped, 0, [])


@settings(max_examples=150)
@given(st.lists(st.tuples(pushes, st.sampled_from([OK, b":5\r\n", bulk(b"v"), b"*1\r\n+x\r\n"])), min_size=1), sizes)
def test_a_push_inside_a_reply_is_none_of_its_elements(members: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    """So Redis 6.2 and 7.0 answer an EXEC that publishes to its own client. Others there close the connection."""
    bench = Bench(PIPELINE)
    client = bench.client()
    bench.upstream.owner = client
    for _ in range(2):
        bench.upstream.send_run(client, b"x", 1)
    reply = b"*%d\r\n" % len(members) + b"".join(pushed + member for pushed, member in members)
    receive(bench, reply + OK, cuts)
    if all(passes(pushed) for pushed, _ in members):
        assert (heard(client), bench.events, client.pending_replies) == (reply + OK, [], 0)
    else:
        assert bench.events == [OUT_OF_STEP]
        unlisted = next(pushed for pushed, _ in members if not passes(pushed))
        assert unlisted not in heard(client)


@settings(max_examples=100)
@given(st.lists(pushes | attributes | st.sampled_from([b'+1.0 [0 x] "GET"\r\n', OK, ERROR]), max_size=8), sizes)
def test_nor_does_another_one_pass_while_monitor_relays(program: list[bytes], cuts: list[int]) -> None:
    bench = Bench(PIPELINE)
    client = bench.client()
    bench.upstream.owner = client
    bench.upstream.relay = True
    receive(bench, b"".join(program), cuts)
    assert heard(client) == b"".join(each for each in program if each[0] not in b">|" or passes(each))


@pytest.mark.parametrize("protocol", [2, 3])
@settings(max_examples=100)
@given(data=st.data(), cuts=sizes)
def test_nor_for_a_subscriber(data: st.DataObject, cuts: list[int], protocol: int) -> None:
    """In RESP2 messages are arrays; a push is none of its frames."""
    bench = Bench(PIPELINE)
    client = bench.client()
    subscriptions = Subscriptions(protocol)
    subscriptions.sets[0].add(b"a")
    bench.upstream.owner = client
    bench.upstream.follow(subscriptions)
    mine = [message(b"text", protocol), confirmation(b"subscribe", b"a", 1, protocol)]
    program = data.draw(
        st.lists(pushes.filter(lambda each: b"scribe\r\n" not in each) | st.sampled_from(mine), max_size=8)
    )
    receive(bench, b"".join(program), cuts)
    assert bench.events == []
    assert heard(client) == b"".join(each for each in program if (each in mine) or (protocol == 3 and passes(each)))


def test_frames_of_this_file_are_frames() -> None:
    for each in (push(b"MOVING", b":1\r\n"), bulk(b"v")):
        assert frame_end(each, 0) == len(each)
        decode(each)
