"""Keyrail asks for the TTLs of a few existing keys, and no more often than documented."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from proxy.commands.slots import slot_of
from proxy.net.policy.expiries import BARRED_SECONDS, MOST_PER_SECOND, Expiries
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.ports.ports import Questions
from proxy.traffic.trace import Trace

TRACE = Trace(
    at=1000.0,
    weight=1,
    command="MGET",
    keys=(b"user:1", b"user:2"),
    writes=(False, False),
    patterns=("user:{int}", "user:{int}"),
    app="shop",
    who=("default", "", "", "unix"),
    bytes_in=30,
    first_line=b"*2\r\n",
)


class Redis:
    """The other side, which answers; `spare` says whether there is a connection."""

    def __init__(self) -> None:
        self.spare = True
        self.asked: list[tuple[PoolKey, Questions]] = []
        self.waiting: list[Callable[[Sequence[bytes] | None], None]] = []
        self.told: list[tuple[str, bytes, float]] = []
        self.expiries = Expiries(self._ask, lambda _: self.spare)

    def _ask(self, key: PoolKey, questions: Questions, answered: Callable[[Sequence[bytes] | None], None]) -> None:
        self.asked.append((key, questions))
        self.waiting.append(answered)

    def wonder(self, trace: Trace = TRACE, times: int = 1) -> None:
        for _ in range(times):
            self.expiries.wonder(trace, PoolKey("ada", 3, 2), lambda *told: self.told.append(told))

    def answer(self, *replies: bytes) -> None:
        for reply in replies:
            self.waiting.pop(0)([reply] if reply else None)


def test_keys_are_asked_about_on_a_connection_of_the_routes_own() -> None:
    redis = Redis()
    redis.wonder(times=4)
    assert redis.asked == [(PoolKey(None, 3, 2), [[b"PTTL", b"user:1"]])] * 4
    redis.answer(b":-1\r\n", b":5000\r\n", b":-2\r\n", b"")
    assert redis.told == [("user:{int}", b"user:1", math.inf), ("user:{int}", b"user:1", 5.0)]


def test_so_many_in_a_second_and_fewer_while_answers_are_missing() -> None:
    redis = Redis()
    redis.wonder(times=20)
    assert len(redis.asked) == MOST_PER_SECOND
    redis.answer(b":1\r\n", b":1\r\n")
    redis.expiries.another_second()
    redis.wonder(times=20)
    assert len(redis.asked) == MOST_PER_SECOND + 2
    redis.expiries.another_second()
    redis.wonder()
    assert len(redis.asked) == MOST_PER_SECOND + 2, "none while all are open"


@pytest.mark.parametrize(
    "trace",
    [
        replace(TRACE, first_line=b""),
        replace(TRACE, first_line=b"$-1\r\n"),
        replace(TRACE, first_line=b"-WRONGTYPE\r\n"),
        replace(TRACE, keys=(), writes=(), patterns=()),
        replace(TRACE, keys=(b"k" * 5000,)),
    ],
)
def test_what_nobody_asks_about(trace: Trace) -> None:
    redis = Redis()
    redis.wonder(trace)
    assert redis.asked == []


def test_nobody_is_asked_while_no_connection_is_to_spare() -> None:
    redis = Redis()
    redis.spare = False
    redis.wonder()
    assert redis.asked == []


def test_a_login_that_may_not_ask_is_left_alone_for_a_while() -> None:
    redis = Redis()
    redis.wonder()
    redis.answer(b"-NOPERM this user has no permissions to run the 'pttl' command\r\n")
    assert redis.expiries.off == ["Keyrail does not know which keys have a TTL (PTTL is not allowed)"]
    for _ in range(BARRED_SECONDS):
        redis.wonder()
        redis.expiries.another_second()
    assert len(redis.asked) == 1
    redis.wonder()
    assert len(redis.asked) == 2
    assert redis.told == []
    redis.answer(b":5\r\n")
    assert redis.told == [("user:{int}", b"user:1", 0.005)]
    assert redis.expiries.off == []


def test_a_key_that_is_not_for_this_login_is_no_word_on_the_command() -> None:
    redis = Redis()
    redis.wonder()
    redis.answer(b"-NOPERM No permissions to access a key\r\n")
    assert redis.expiries.off == []


def test_with_a_cluster_upstream_the_node_of_the_key_is_asked() -> None:
    redis, nodes = Redis(), {slot_of(b"user:1"): Node(3)}
    redis.expiries = Expiries(redis._ask, lambda _: True, nodes.get)
    redis.wonder()
    assert redis.asked == [(PoolKey(None, 3, 2, nodes[slot_of(b"user:1")]), [[b"PTTL", b"user:1"]])]
    redis.answer(b"-MOVED 1 127.0.0.1:7000\r\n")
    redis.wonder()
    redis.answer(b":5000\r\n")
    assert redis.told == [("user:{int}", b"user:1", 5.0)], "a slot that has moved keeps nobody from asking"
    nodes.clear()
    redis.wonder()
    assert redis.waiting == []
