"""FLUSHDB of a tenant: its clients' writes are held, what the walk finds is deleted, and each end is told truly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from proxy.commands.held_by_pause import held_by_pause
from proxy.commands.table import STANDARD
from proxy.hotpath.plan.hot_path_config import HotPathConfig
from proxy.hotpath.upstream.write_gate import WriteGate
from proxy.policy.apps import Caller
from proxy.session.ports.client import EffectivePolicy
from proxy.session.ports.pause_port import TenantHold
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.ports.pool_waiter import UpstreamWait, Waiter
from tests.policy.given import policy as policy_of
from tests.session.given import FAST, LARGE, PLAIN, Client, call
from tests.session.test_tenant_walks import answer, page, questions
from tests.session.test_tenants import OK, QUEUED, RULES, TenantRoute, bound_for

FLUSHES = RULES.replace("globex]}", "globex], flush: walk, only_keyrail: yes}")
POLICY = policy_of(FLUSHES)
DENIED = b"-DENIED keyrail: FLUSHDB has not been completed: "
NONE_GONE = b"; no key of this tenant is gone; send it again\r\n"
MAY_BE_GONE = b"; no key of this tenant is gone, and up to %d more may be; send it again\r\n"


class Hold(TenantHold):
    def __init__(self, pauses: Pauses, waiter: Waiter, prefix: bytes, seconds: float) -> None:
        self.pauses, self.prefix, self.seconds = pauses, prefix, seconds
        self.waiter: Waiter | None = waiter
        self.begun: str | None = None
        self.ended: str | None = None

    def tell(self, problem: str = "") -> None:
        """What the workers say at last."""
        if self.begun is None:
            self.begun = problem
        else:
            self.ended = problem
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.arrived()

    def end(self, waiter: Waiter | None = None) -> None:
        self.pauses.held.remove(self)
        self.waiter = waiter
        self.pauses.settle()


class Wait(UpstreamWait):
    def end(self) -> None:
        """Whoever waits is asked."""


class Pauses:
    """Holds those of tenants, and nothing else."""

    def __init__(self) -> None:
        self.gate = WriteGate()
        self.tenants = self
        self.held: list[Hold] = []
        self.waiting: list[Waiter] = []

    def holds(self, place: bytes | Node | None) -> bool:
        return isinstance(place, bytes) and any(place == hold.prefix for hold in self.held)

    def begin(self, waiter: Waiter, prefix: bytes, seconds: float) -> TenantHold:
        self.held.append(Hold(self, waiter, prefix, seconds))
        self.settle()
        return self.held[-1]

    def has_left(self, prefix: bytes) -> None:
        """What was sent has run."""

    def wait(self, waiter: Waiter) -> UpstreamWait:
        self.waiting.append(waiter)
        return Wait()

    def settle(self) -> None:
        self.gate.closed = bool(self.held)
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.arrived()


class FlushRoute(TenantRoute):
    """A route that can hold writes."""

    def __init__(self) -> None:
        self.pauses = Pauses()
        super().__init__(POLICY)
        self.ports = replace(self.ports, pauses=cast("Any", self.pauses))
        self.known_users |= {"acme", "globex", "other"}

    def effective_policy(self, key: PoolKey, caller: Caller) -> EffectivePolicy:
        whole = super().effective_policy(key, caller)
        bound = whole.compiled
        if bound.app in ("acme", "globex"):
            bound = bound_for(bound.policy, next(app for app in bound.policy.apps if app.name == bound.app))
        parts = (self.counters, self.request, FAST, PLAIN, self.window, self.sampler)
        config = HotPathConfig(
            bound.plan,
            STANDARD.lookup,
            STANDARD.keys,
            *parts,
            may_pause=bytes(map(held_by_pause, STANDARD.specs)),
            gate=self.pauses.gate,
        )
        return EffectivePolicy(config, bound, STANDARD, self.generation)

    def client(self, user: str = "acme") -> Client:
        return Client(self, PoolKey(user, 0, 2))


def begin() -> tuple[FlushRoute, Client]:
    route = FlushRoute()
    return route, route.client()


def unlinked(*names: str) -> list[bytes]:
    return [b"UNLINK", *(name.encode() for name in names)]


def scan(cursor: int) -> list[bytes]:
    return [b"SCAN", b"%d" % cursor, b"MATCH", b"acme:*", b"COUNT", b"500"]


def test_it_deletes_page_by_page_what_it_finds() -> None:
    route, client = begin()
    client.say("SET", "a", 1)
    client.say("FLUSHDB", "ASYNC")
    client.say("GET", "a")
    assert route.pauses.held == [], "its own writes are answered first"
    route.upstream(client.key).answer(OK)
    (hold,) = route.pauses.held
    assert (hold.prefix, hold.seconds, route.asked) == (b"acme:", 12.0, [])
    hold.tell()
    assert questions(route) == [scan(0)]
    answer(route, page(b"7", b"acme:a", b"acme:acme:b"))
    assert questions(route) == [unlinked("acme:a", "acme:acme:b"), scan(7)]
    answer(route, b":2\r\n", page(b"0", *(b"acme:%d" % number for number in range(150))))
    first, last = questions(route)
    assert (first[:2], len(first), len(last)) == ([b"UNLINK", b"acme:0"], 101, 51)
    answer(route, b":100\r\n", b":50\r\n")
    assert (route.pauses.held, client.heard()) == ([], OK), "what comes behind it may go on, once all have held it"
    hold.tell()
    assert client.heard() == OK
    assert route.upstream(client.key).taken() == call("SET", "acme:a", 1) + call("GET", "acme:a")


def test_an_empty_tenant_and_wrong_words() -> None:
    route, client = begin()
    client.say("FLUSHDB")
    (hold,) = route.pauses.held
    hold.tell()
    answer(route, page(b"0"))
    hold.tell()
    assert client.heard() == OK
    for words in (("FLUSHDB", "NOW"), ("FLUSHDB", "SYNC", "SYNC")):
        client.say(*words)
        assert (client.heard(), route.pauses.held) == (b"-ERR syntax error\r\n", [])


def test_workers_that_do_not_hold_its_writes() -> None:
    route, client = begin()
    client.say("FLUSHDB")
    (hold,) = route.pauses.held
    hold.tell("a worker is being replaced")
    said = b"its clients' writes could not be held: a worker is being replaced" + NONE_GONE
    assert (client.heard(), route.pauses.held, route.asked) == (DENIED + said, [], [])
    client.say("FLUSHDB")
    (hold,) = route.pauses.held
    hold.tell()
    answer(route, page(b"0", b"acme:a"))
    answer(route, b":1\r\n")
    hold.tell("a worker has not held them")
    assert client.heard() == DENIED + b"a worker has not held them; 1 keys of this tenant are gone; send it again\r\n"


def test_what_redis_says_instead() -> None:
    route, client = begin()
    for frames, told in (
        ([b":1\r\n", b"-LOADING wait\r\n"], b"-LOADING wait (FLUSHDB: 1 keys of this tenant are gone)\r\n"),
        (
            [b"-NOPERM no\r\n", page(b"0")],
            DENIED + b"this user may not run UNLINK" + NONE_GONE,
        ),
    ):
        client.say("FLUSHDB")
        (hold,) = route.pauses.held
        hold.tell()
        answer(route, page(b"3", b"acme:a"))
        route.asked.pop()[2](frames)
        hold.tell()
        assert (client.heard(), route.pauses.held) == (told, [])


def test_its_time_is_over() -> None:
    route, client = begin()
    client.say("FLUSHDB")
    (hold,) = route.pauses.held
    hold.tell()
    answer(route, page(b"3", b"acme:a"))
    route.moment += 2.0
    answer(route, b":1\r\n", page(b"4", b"acme:b"))
    hold.tell()
    said = b"it took longer than 2 s, the time of tenants.walk; 1 keys of this tenant are gone; send it again\r\n"
    assert client.heard() == DENIED + said


def test_deletes_that_are_late_are_told_of_and_held_for() -> None:
    route, client = begin()
    client.say("FLUSHDB")
    (hold,) = route.pauses.held
    hold.tell()
    answer(route, page(b"3", b"acme:a", b"acme:b"))
    route.timers.pop()()
    hold.tell()
    told = client.heard()
    assert (
        told
        == DENIED
        + b"it took longer than 7 s; no key of this tenant is gone, and up to 2 more may be; send it again\r\n"
    )


def test_a_client_that_leaves_holds_until_its_deletes_are_answered() -> None:
    route, client = begin()
    client.say("FLUSHDB")
    (hold,) = route.pauses.held
    hold.tell()
    answer(route, page(b"3", b"acme:a"))
    client.on_close()
    assert route.pauses.held == [hold]
    answer(route, b":1\r\n", page(b"0", b"acme:b"))
    assert (route.pauses.held, route.asked) == ([], [])
    other = route.client()
    other.say("FLUSHDB")
    other.on_close()
    assert route.pauses.held == []


@pytest.mark.parametrize("leaves", [False, True])
def test_deletes_on_a_connection_that_is_lost_are_held_for(leaves: bool) -> None:
    route, client = begin()
    client.say("FLUSHDB")
    (hold,) = route.pauses.held
    hold.tell()
    answer(route, page(b"3", b"acme:a"))
    if leaves:
        client.on_close()
    route.asked.pop()[2](None)
    if not leaves:
        assert client.heard() == DENIED + b"no connection to Redis could be had for it" + MAY_BE_GONE % 1
    assert route.pauses.held == [hold]
    route.timers.pop()()
    assert route.pauses.held == []


def test_without_a_connection_nothing_is_held_for() -> None:
    route, client = begin()
    client.say("FLUSHDB")
    (hold,) = route.pauses.held
    hold.tell()
    route.asked.pop()[2](None)
    hold.tell()
    assert client.heard() == DENIED + b"no connection to Redis could be had for it" + NONE_GONE
    assert route.pauses.held == []


def test_inside_multi_it_is_refused_and_aborts() -> None:
    route, client = begin()
    client.send(call("MULTI") + call("FLUSHDB") + call("EXEC"))
    for upstream in route.all_upstreams():
        assert b"FLUSHDB" not in upstream.taken()
        if upstream.head is not None:
            upstream.answer(OK, b"-ERR wrong number\r\n", b"-EXECABORT x\r\n")
    assert client.heard().startswith(OK + DENIED + b"it is inside MULTI; ")


def whole(*commands: Sequence[str]) -> Callable[[FlushRoute, Client], None]:
    def say(_route: FlushRoute, client: Client) -> None:
        client.send(b"".join(call(*words) for words in commands))

    return say


def pinned(*words: str) -> Callable[[FlushRoute, Client], None]:
    def say(_route: FlushRoute, client: Client) -> None:
        client.say(*words)

    return say


HELD = {
    "a write": whole(("SET", "a", "1")),
    "one that is judged": whole(("BITFIELD", "a", "SET", "u8", "0", "1")),
    "a transaction that is there": whole(("MULTI",), ("SET", "a", "1"), ("EXEC",)),
    "one that may block": whole(("BLPOP", "a", "0")),
    "a large value": whole(("SET", "a", "x" * 2 * LARGE)),
}
PASSING = {
    "a read": whole(("GET", "a")),
    "a transaction of reads": whole(("MULTI",), ("GET", "a"), ("EXEC",)),
    "a message": whole(("ECHO", "a")),
}


@pytest.mark.parametrize("what", [*HELD, *PASSING])
def test_what_waits_meanwhile(what: str) -> None:
    route, flusher = begin()
    writer, other, of_none = route.client(), route.client("globex"), route.client("other")
    flusher.say("FLUSHDB")
    (hold,) = route.pauses.held
    hold.tell()
    for client in (writer, other, of_none):
        (HELD | PASSING)[what](route, client)
    held = b"".join(each.taken() for each in route.all_upstreams() if each.key.user == "acme")
    assert (held == b"") == (what in HELD)
    for client in (other, of_none):
        assert b"".join(each.taken() for each in route.all_upstreams() if each.key.user == client.key.user)
    answer(route, page(b"0"))
    hold.tell()
    sent = b"".join(each.taken() for each in route.all_upstreams() if each.key.user == "acme")
    assert (b"acme:a" in held + sent) == (what != "a message")


def test_on_a_connection_of_its_own_a_write_waits_and_so_does_exec() -> None:
    route, flusher = begin()
    writer, queues = route.client(), route.client()
    for client in (writer, queues):
        client.say("WATCH", "w")
        client.own.answer(OK)
        client.own.taken()
    queues.say("MULTI")
    queues.own.answer(OK)
    flusher.say("FLUSHDB")
    (hold,) = route.pauses.held
    hold.tell()
    writer.say("SET", "a", 1)
    assert writer.own.taken() == b""
    queues.own.taken()
    queues.say("SET", "a", 1)
    queues.own.answer(QUEUED)
    queues.say("EXEC")
    assert queues.own.taken() == call("SET", "acme:a", 1)
    answer(route, page(b"0"))
    assert (writer.own.taken(), queues.own.taken()) == (call("SET", "acme:a", 1), call("EXEC"))
