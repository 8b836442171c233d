"""The upstream pipeline follows its state table, for any order of actions and any cut of the bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hotpath import cases_of_actions, cases_of_late_replies, cases_of_streams
from tests.hotpath.bench import BULK, ERROR, OK, PIPELINE, PUSH, Bench, cases_of, heard

CASES = cases_of(cases_of_actions) | cases_of(cases_of_late_replies) | cases_of(cases_of_streams)

FRAMES = [OK, ERROR, BULK, b"*0\r\n", b"*2\r\n$-1\r\n*1\r\n:5\r\n", b"_\r\n", b"%1\r\n+a\r\n:1\r\n", b"*-1\r\n"]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_case(case: Any) -> None:
    case(PIPELINE)


actions = st.sampled_from(["forward", "hide", "local", "replace", "edit", "edit_error", "peek", "members", "note"])
steps = st.lists(st.tuples(st.integers(0, 2), actions, st.sampled_from(FRAMES), st.booleans()), max_size=12)


@settings(max_examples=200)
@given(steps, st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_each_client_gets_its_own_in_its_order(program: list[tuple[int, str, bytes, bool]], sizes: list[int]) -> None:
    bench = Bench(PIPELINE)
    clients = [bench.client() for _ in range(3)]
    expected = [b""] * 3
    stream = b""
    for number, (who, action, frame, pushed) in enumerate(program):
        client = clients[who]
        if pushed:
            stream += PUSH
        if action == "local":
            payload = b"+local %d\r\n" % number
            bench.upstream.enqueue(client, 1, PIPELINE.LOCAL, payload)
            expected[who] += payload
        else:
            stream += frame
            expected[who] += queue(bench, client, action, frame)
    position = 0
    turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        bench.upstream.receive(stream[position : position + size])
        position += size
        turn += 1
    assert bench.events == []
    assert [heard(client) for client in clients] == expected
    assert [client.pending_replies for client in clients] == [0, 0, 0]
    assert bench.pending_replies() == []


def queue(bench: Bench, client: Any, action: str, frame: bytes) -> bytes:
    """Expect one reply, and say what must come of it."""
    keeper = bench.upstream
    if action == "forward":
        keeper.send_run(client, b"x", 1)
    elif action == "hide":
        keeper.enqueue(client, 1, PIPELINE.HIDE, None)
        return b""
    elif action == "note":
        keeper.enqueue(client, 1, PIPELINE.NOTE, lambda frame: None)
        return b""
    elif action == "replace":
        keeper.enqueue(client, 1, PIPELINE.REPLACE, ERROR)
        return ERROR
    elif action == "edit":
        keeper.enqueue(client, 1, PIPELINE.EDIT, lambda frame: b"<" + frame + b">")
        return b"<" + frame + b">"
    elif action == "edit_error":
        keeper.enqueue(client, 1, PIPELINE.EDIT_ERROR, lambda frame: b"<" + frame + b">")
        return b"<" + frame + b">" if frame.startswith(b"-") else frame
    elif action == "peek":
        keeper.enqueue(client, 1, PIPELINE.PEEK, lambda line: None)
    else:
        keeper.enqueue(client, 1, PIPELINE.MEMBERS, {})
    return frame


@settings(max_examples=150)
@given(st.lists(actions, min_size=1, max_size=4), st.lists(st.binary(max_size=12), max_size=6))
def test_odd_bytes_end_in_a_verdict_not_in_an_exception(program: list[str], pieces: list[bytes]) -> None:
    bench = Bench(PIPELINE)
    client = bench.client()
    for action in program:
        if action == "local":
            bench.upstream.enqueue(client, 1, PIPELINE.LOCAL, OK)
        else:
            queue(bench, client, action, b"")
    for piece in pieces:
        bench.upstream.receive(piece)
        if bench.events:
            break
        assert client.pending_replies >= 0
