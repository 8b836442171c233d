"""What must be so of replies whose edit takes several turns, each in a situation of its own, and which can be played to
any upstream pipeline: ``test_upstream_pipeline`` plays them to the real one, ``test_upstream_pipeline_can_fail`` broken
ones.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.hotpath.bench import BULK, ERROR, OK, ONE, PUSH, Bench, heard

ARRAY = b"*2\r\n:1\r\n" + BULK


class Late:
    """Edits that take as long as the test wants; what is no array passes."""

    opening = b""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.frames: list[bytes] = []

    def passes(self, head: bytes) -> int:
        return int(not head.startswith(b"*"))

    def begin(self, pieces: list[bytes], reply: Any) -> None:
        self.frames.append(b"".join(pieces))
        self.begun.append(reply)
        reply.begin_late()

    def __call__(self, frame: bytes) -> bytes:
        return b"<" + frame + b">"

    def end(self, *pieces: bytes) -> None:
        """The edit that was begun first is done: it has made this."""
        reply = self.begun.pop(0)
        for piece in pieces:
            reply.take_late(piece)
        reply.end_late()


def late(module: ModuleType) -> tuple[Bench, Any, Late]:
    """A client that awaits such a reply, and has asked for another one behind it."""
    bench, edit = Bench(module), Late()
    client = bench.client()
    bench.upstream.enqueue(client, 1, module.EDIT_SOME, edit)
    bench.upstream.send_run(client, b"x", 1)
    return bench, client, edit


def what_comes_behind_a_late_reply_waits(module: ModuleType) -> None:
    stream = ARRAY + OK + BULK + ONE
    for cut in range(1, len(stream)):
        for again in (cut, len(stream)):
            bench, client, edit = late(module)
            other = bench.client()
            bench.upstream.send_run(other, b"y", 2)
            for piece in (stream[:cut], stream[cut:again], stream[again:]):
                bench.upstream.receive(piece)
            assert (edit.frames, heard(client), heard(other)) == ([ARRAY], b"", b"")
            assert (client.pending_replies, other.pending_replies, bench.events) == (2, 2, ["hold"])
            edit.begun[0].take_late(b"*1\r\n")
            assert (heard(client), client.pending_replies, bench.events) == (b"*1\r\n", 2, ["hold"])
            edit.end(b"$1\r\n", b"a\r\n")
            assert (heard(client), heard(other)) == (b"$1\r\na\r\n" + OK, BULK + ONE)
            assert (client.pending_replies, other.pending_replies, bench.upstream.rest) == (0, 0, b"")
            assert (bench.events, bench.pending_replies()) == (["hold", "go on"], [])


def a_late_reply_may_follow_another_one(module: ModuleType) -> None:
    bench, edit = Bench(module), Late()
    client = bench.client()
    client.notify_when_idle = True
    bench.upstream.enqueue(client, 5, module.EDIT_SOME, edit)
    bench.upstream.receive(OK + ARRAY + ERROR + ARRAY + ONE)
    assert (heard(client), client.pending_replies, len(edit.begun)) == (OK, 4, 1)
    edit.end(b"first")
    assert (heard(client), client.pending_replies, len(edit.begun)) == (b"first<" + ERROR + b">", 2, 1)
    edit.end()
    assert (heard(client), client.pending_replies, len(edit.begun)) == (ONE, 0, 0)
    assert bench.events == ["hold", "go on", "hold", "go on", ("on_idle", client)]


def a_late_member_keeps_its_place_in_the_array(module: ModuleType) -> None:
    bench, client, edit = late(module)
    bench.upstream.receive(ARRAY + OK)
    edit.end()
    heard(client)
    bench.upstream.owner = client
    bench.upstream.enqueue(client, 1, module.MEMBERS, {1: (module.EDIT_SOME, edit), 2: (module.HIDE, None)})
    bench.upstream.receive(b"*4\r\n" + ONE + ARRAY + OK + BULK + PUSH)
    assert (heard(client), client.pending_replies) == (b"*3\r\n" + ONE, 3)
    end = bench.upstream.unfinished(client)
    bench.upstream.insert_behind(end, b"+pushed\r\n")
    edit.end(b"*0\r\n")
    assert (heard(client), client.pending_replies) == (b"*0\r\n" + BULK + b"+pushed\r\n" + PUSH, 0)


def a_large_late_reply_is_told(module: ModuleType) -> None:
    for large in (10, len(ARRAY) + 3):
        bench, edit = Bench(module), Late()
        bench.upstream.large = large
        bench.upstream.send_run(bench.client(), b"run", 1)
        assert bench.upstream.tail is not None
        bench.upstream.tail.action, bench.upstream.tail.payload = module.EDIT_SOME, edit
        bench.upstream.receive(ARRAY)
        edit.end(ARRAY, b"more")
        told = [event for event in bench.events if event[0] == "on_large_reply"]
        assert told == [("on_large_reply", b"run", 0, len(ARRAY) + 4, len(ARRAY))]


def no_message_comes_within_a_late_reply(module: ModuleType) -> None:
    bench, client, edit = late(module)
    bench.upstream.receive(ARRAY)
    assert not bench.upstream.whole_frames()
    assert not bench.upstream.between_frames()
    edit.begun[0].take_late(b"*1\r\n")
    assert bench.upstream.unfinished(bench.client()) is None
    bench.upstream.insert_behind(bench.upstream.unfinished(client), b"+pushed\r\n")
    edit.end(ONE)
    assert heard(client) == b"*1\r\n" + ONE + b"+pushed\r\n"
    assert bench.upstream.whole_frames()
    assert bench.upstream.between_frames()


def a_late_reply_is_no_standstill(module: ModuleType) -> None:
    bench, _, edit = late(module)
    assert bench.upstream.progress() == bench.upstream.progress()
    bench.upstream.receive(ARRAY)
    assert bench.upstream.progress() != bench.upstream.progress()
    edit.end(ONE)
    assert bench.upstream.progress() == bench.upstream.progress()


def new_commands_need_not_wait_for_a_long_reply(module: ModuleType) -> None:
    bench, client, edit = late(module)
    bench.upstream.receive(ARRAY)
    edit.begun[0].is_long()
    assert bench.events == ["hold", ("on_large_head", client)]


def who_takes_no_late_reply_overflows(module: ModuleType) -> None:
    bench, client, edit = late(module)
    bench.upstream.receive(ARRAY)
    client.full = True
    edit.end(ONE)
    assert bench.events == ["hold", ("overflowing", client), "go on", ("overflowing", client)]


def nobody_wants_a_late_reply_of_who_has_left(module: ModuleType) -> None:
    bench, client, edit = late(module)
    other = bench.client()
    bench.upstream.send_run(other, b"y", 1)
    bench.upstream.receive(ARRAY + OK + ONE)
    reply = edit.begun[0]
    assert not reply.is_unwanted()
    client.gone = True
    assert reply.is_unwanted()
    reply.end_late()
    assert (heard(client), heard(other), client.pending_replies, other.pending_replies) == (b"", ONE, 0, 0)


def a_late_reply_is_lost_with_its_connection(module: ModuleType) -> None:
    bench, client, edit = late(module)
    bench.upstream.receive(ARRAY + OK)
    assert not edit.begun[0].is_unwanted()
    assert bench.upstream.abandon() == [client]
    assert edit.begun[0].is_unwanted()
    edit.end()
    assert (heard(client), bench.events) == (b"", ["hold"])


def what_cannot_be_made_is_out_of_step(module: ModuleType) -> None:
    bench, client, edit = late(module)
    bench.upstream.receive(ARRAY + OK)
    edit.begun[0].fail_late()
    assert (heard(client), bench.events) == (b"", ["hold", "out of step"])
    bench.upstream.abandon()
    edit.begun[0].fail_late()
    assert bench.events == ["hold", "out of step"]
