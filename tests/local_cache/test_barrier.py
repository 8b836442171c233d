"""A cache that is held back answers again once all its connections have told what has changed."""

from __future__ import annotations

from proxy.hotpath.cache.cached_reply import ReplySource
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.local_cache.barrier import Barrier
from proxy.local_cache.fills import Fills

PONG = b"+PONG\r\n"


class Stage:
    """A cache with two connections, and a client whose command has been answered."""

    def __init__(self) -> None:
        self.cache, self.client = ReplyCache(), ReplySink()
        self.fills = [Fills(self.cache, ReplySource(self.cache), lambda _: None, 1.0) for _ in range(2)]
        for each in self.fills:
            each.receive(PONG, 1.0)
        self.barrier = Barrier(self.cache, lambda: self.fills)
        self.cache.hold_back(self.client, 0)


def test_all_connections_are_asked() -> None:
    stage = Stage()
    stage.barrier.settle(1.0)
    for each in stage.fills:
        assert stage.cache.held_back
        each.receive(PONG, 1.1)
    assert not stage.cache.held_back


def test_a_connection_that_is_lost_is_not_waited_for() -> None:
    stage = Stage()
    stage.barrier.settle(1.0)
    stage.fills[0].receive(PONG, 1.1)
    stage.barrier.passed(stage.fills.pop(), 1.2)
    assert not stage.cache.held_back


def test_without_a_connection_nothing_is_waited_for() -> None:
    stage = Stage()
    stage.fills.clear()
    stage.barrier.settle(1.0)
    assert not stage.cache.held_back


def test_clients_that_have_looked_are_answered_again_and_nobody_else_is_held_back() -> None:
    stage = Stage()
    stage.cache.release()
    reader, other = ReplySink(), ReplySink()
    reader.requested = other.requested = other.pending_replies = 1
    stage.cache.look(reader, 1)
    stage.cache.look(other, 1)
    stage.barrier.settle(1.0)
    reader.requested = 2
    stage.cache.look(other, 1)
    for each in stage.fills:
        assert set(stage.cache.looking) == {reader, other}
        assert not stage.cache.held_back
        each.receive(PONG, 1.1)
    assert set(stage.cache.looking) == {other}, "its reply has not come"
    other.pending_replies = 0
    stage.barrier.settle(1.2)
    stage.cache.look(other, 2)
    for each in stage.fills:
        each.receive(PONG, 1.3)
    assert stage.cache.looking == {other: 2}, "it has looked again"


def test_a_command_behind_the_question_needs_another_one() -> None:
    stage = Stage()
    stage.barrier.settle(1.0)
    stage.cache.hold_back(stage.client, 0)
    for expected in (True, False):
        for each in stage.fills:
            assert stage.cache.held_back
            each.receive(PONG, 1.1)
        assert stage.cache.held_back is expected
