"""How long Keyrail remembers a login that Redis has accepted, and what ends that earlier."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake import Intake
from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.net.connection.group_counts import counts_in
from proxy.net.logins.logins import REMEMBERED_SECONDS, Logins
from proxy.net.pool.failover_wait import FailoverWait
from proxy.net.topology.primary import Primary
from proxy.net.topology.topology import Single
from proxy.session.ports.client import EffectivePolicy
from proxy.session.ports.client_identity import Names, Origin
from proxy.session.ports.login_port import Credentials, LoginReply
from proxy.session.ports.pool_key import PoolKey

OK, WRONG = b"+OK\r\n", b"-WRONGPASS no\r\n"
OWN = Credentials(b"default", b"pw")
ALONE = OWN._replace(alone=True)
ANN = Credentials(b"ann", b"pw")


class Waiter:
    """A client that waits. What is only declared here is not asked for."""

    names: Names
    shown_names: Names
    effective_policy: EffectivePolicy
    sender: CommandSender
    intake: Intake
    key: PoolKey
    user_name = ""
    blocked = False

    def __init__(self) -> None:
        self.origin = Origin("127.0.0.1:6380", "10.0.0.7:51234")
        self.gone = False
        self.arrivals = 0
        self.cause = ""

    def arrived(self) -> None:
        self.arrivals += 1

    def close(self, cause: str) -> None:
        self.cause, self.gone = cause, True

    close_when_drained = close

    def turn_away(self, error: bytes, cause: str) -> None:
        self.close(cause)


class Upstream:
    """A connection that nobody has logged in on; it answers when the test says so."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.key = PoolKey(None, 0, 2)
        self.apart, self.ended = True, False
        self.farewell = ""

    async def ask(self, argv: list[bytes]) -> bytes:
        return await self.redis.answer(argv)

    def close(self) -> None:
        self.ended = True

    abort = close


class CountedWait(FailoverWait):
    """Knows how many logins wait."""

    waiting = 0

    async def await_server(self, until: float) -> None:
        self.waiting += 1
        await super().await_server(until)
        self.waiting -= 1


class Redis:
    """What stands behind: its connections, its clock, and its number of processes."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.asked: list[list[bytes]] = []
        self.reply: bytes | None = OK
        self.answers = asyncio.Event()
        self.answers.set()
        self.opened: list[Upstream] = []
        self.given_back: list[Any] = []
        self.restarts = SimpleNamespace(met=0)
        loop = asyncio.get_running_loop()
        clock: Any = SimpleNamespace(time=lambda: self.time, call_soon=loop.call_soon)
        settings: Any = SimpleNamespace(connect_timeout=5.0, failover_wait=2.0)
        self.attempts = 0
        self.away = False
        self.failover = FailoverWait(Single(UpstreamAddress()), settings, clock)
        self.failover.reached()
        address = SimpleNamespace(username=None, password=object())
        self.supply: Any = SimpleNamespace(failover=self.failover)
        connections: Any = SimpleNamespace(
            loop=clock,
            topology=SimpleNamespace(login=address, nodes=(), place=lambda node: node),
            pools=SimpleNamespace(home=PoolKey(None, 0, 2)),
            all=SimpleNamespace(start=loop.create_task),
            supply=self.supply,
            opening=SimpleNamespace(open_for_login=self.open),
            settings=settings,
            restarts=self.restarts,
            logins=SimpleNamespace(refused={}, under_way=Counter()),
        )
        self.changes = counts_in(memoryview(bytearray(16)), 1, 0).users
        self.logins = Logins(connections, self.given_back.append, self.changes)

    async def open(self) -> Upstream:
        self.attempts += 1
        if self.away:
            raise ConnectionRefusedError
        self.opened.append(Upstream(self))
        return self.opened[-1]

    def fail_over(self) -> CountedWait:
        """The server is lost, and another one may take its place."""
        settings: Any = SimpleNamespace(failover_wait=3600.0)
        topology = Primary(parse_upstream("redis+sentinel://s1/mymaster"))
        failover = CountedWait(topology, settings, asyncio.get_running_loop())
        self.failover = self.supply.failover = failover
        failover.lost()
        return failover

    async def answer(self, argv: list[bytes]) -> bytes:
        self.asked.append(argv)
        await self.answers.wait()
        if self.reply is None:
            raise ConnectionResetError
        return self.reply

    async def log_in(self, login: Credentials, waiter: Waiter | None = None) -> LoginReply:
        """As a session does: ask, wait, ask again."""
        waiter = waiter or Waiter()
        for _ in range(100):
            reply = self.logins.check(waiter, login)
            if reply is not None:
                return reply
            await another_arrival(waiter)
        raise AssertionError("no reply")


async def another_arrival(waiter: Waiter) -> None:
    before = waiter.arrivals
    await until(lambda: waiter.arrivals > before)


async def until(holds: Callable[[], bool]) -> None:
    """Let others run until this holds."""
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never holds")


def play(case: Callable[[Redis], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(case(Redis()), 30.0)

    asyncio.run(main())


def test_redis_is_asked_again_when_the_time_is_over() -> None:
    async def case(redis: Redis) -> None:
        over = REMEMBERED_SECONDS
        for moment, asked in ((0.0, 1), (over - 0.1, 1), (over, 2), (over + 1, 2)):
            redis.time = 1000.0 + moment
            assert (await redis.log_in(OWN)).frame == OK
            assert len(redis.asked) == asked, moment
        assert all(upstream.ended for upstream in redis.opened)

    play(case)


def change_users(redis: Redis) -> None:
    redis.changes.add()


def refuse(redis: Redis) -> None:
    redis.logins.refused(Waiter(), OWN)


def restart(redis: Redis) -> None:
    redis.restarts.met += 1


@pytest.mark.parametrize("end", [change_users, refuse, restart])
def test_what_ends_it_before(end: Callable[[Redis], None]) -> None:
    async def case(redis: Redis) -> None:
        await redis.log_in(OWN)
        end(redis)
        redis.reply = WRONG
        assert (await redis.log_in(OWN)).frame == WRONG
        assert len(redis.asked) == 2

    play(case)


@pytest.mark.parametrize("refused", [OWN, ALONE])
def test_a_password_that_is_refused_in_one_form_counts_in_neither(refused: Credentials) -> None:
    """A client that has a connection of its own asks Redis although the pair is remembered."""

    async def case(redis: Redis) -> None:
        await redis.log_in(ALONE)
        redis.logins.refused(Waiter(), refused)
        redis.reply = WRONG
        assert [(await redis.log_in(form)).frame for form in (OWN, ALONE)] == [WRONG, WRONG]

    play(case)


@pytest.mark.parametrize("end", [change_users, refuse, restart])
def test_a_reply_to_what_was_asked_before_a_change_does_not_count(end: Callable[[Redis], None]) -> None:
    async def case(redis: Redis) -> None:
        redis.answers.clear()
        asking = asyncio.create_task(redis.log_in(OWN))
        await until(lambda: bool(redis.asked))
        end(redis)
        redis.answers.set()
        assert (await asking).frame == OK
        await redis.log_in(OWN)
        assert len(redis.asked) == 2

    play(case)


def test_pairs_are_told_apart() -> None:
    """By the last byte, and where one ends; a password alone says no more than with its name, but not the other way."""

    async def case(redis: Redis) -> None:
        await redis.log_in(OWN)
        others = [Credentials(b"default", b"px"), Credentials(b"default", b"pw\0"), Credentials(b"default", b""), ALONE]
        redis.reply = WRONG
        for number, other in enumerate(others, 2):
            assert (await redis.log_in(other)).frame == WRONG
            assert len(redis.asked) == number
        redis.reply = OK
        await redis.log_in(ALONE)
        redis.logins.refused(Waiter(), Credentials(b"default", b"px"))
        asked = len(redis.asked)
        await redis.log_in(OWN)
        await redis.log_in(ALONE)
        assert len(redis.asked) == asked
        assert redis.asked[-1] == [b"AUTH", b"pw"]

    play(case)


def test_many_passwords_take_no_more_memory_than_few() -> None:
    async def case(redis: Redis) -> None:
        for number in range(100):
            await redis.log_in(Credentials(b"default", b"%d" % number))
        assert len(redis.logins._accepted) <= 16
        assert (await redis.log_in(Credentials(b"default", b"99"))).accepted
        assert len(redis.asked) == 100

    play(case)


def test_a_crowd_with_one_password_asks_once_and_with_a_wrong_one_each_asks() -> None:
    async def case(redis: Redis) -> None:
        redis.answers.clear()
        crowd = [asyncio.create_task(redis.log_in(OWN)) for _ in range(50)]
        await until(lambda: bool(redis.asked))
        redis.answers.set()
        assert {reply.frame for reply in await asyncio.gather(*crowd)} == {OK}
        assert len(redis.asked) == 1
        redis.reply = WRONG
        wrong = Credentials(b"default", b"wrong")
        replies = await asyncio.gather(*(redis.log_in(wrong) for _ in range(5)))
        assert {reply.frame for reply in replies} == {WRONG}
        assert len(redis.asked) == 6, "each failure is for Redis's log"
        assert redis.logins.outcomes == {"accepted": 1, "remembered": 49, "refused": 5}

    play(case)


def test_another_user_brings_its_connection() -> None:
    async def case(redis: Redis) -> None:
        assert (await redis.log_in(ANN)).user == "ann"
        assert (await redis.log_in(ANN)).user == "ann"
        assert [upstream.key.user for upstream in redis.given_back] == ["ann", "ann"]
        assert not any(upstream.ended or upstream.apart for upstream in redis.given_back)

    play(case)


def test_a_client_that_has_gone_leaves_nothing() -> None:
    async def case(redis: Redis) -> None:
        waiter = Waiter()
        redis.answers.clear()
        assert redis.logins.check(waiter, ANN) is None
        await until(lambda: bool(redis.asked))
        assert redis.logins.check(waiter, ANN) is None, "woken before there is an answer"
        redis.logins.client_closed(waiter)
        redis.answers.set()
        await until(lambda: redis.opened[0].ended)
        assert (waiter.arrivals, redis.given_back, redis.logins._questions) == (0, [], {})

    play(case)


def test_logins_wait_for_the_server_that_takes_the_place_of_a_lost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its loss has not shown yet; not for longer than commands do, and not where nobody waits any more."""

    monkeypatch.setattr("proxy.net.logins.logins._AGAIN", 0.0)

    async def case(redis: Redis) -> None:
        failover = redis.fail_over()
        waiters = [Waiter() for _ in range(3)]
        for waiter, login in zip(waiters, (OWN, OWN, ANN), strict=True):
            assert redis.logins.check(waiter, login) is None
        await until(lambda: failover.waiting == 2)
        assert redis.attempts == 0
        redis.away = True
        failover.reached()
        await until(lambda: redis.attempts > 3)
        assert not any(waiter.gone for waiter in waiters)
        redis.away = False
        await until(lambda: all(waiter.arrivals for waiter in waiters))
        assert redis.logins.check(waiters[0], OWN) == LoginReply(OK)
        assert redis.logins.check(waiters[2], ANN) == LoginReply(OK, "ann")
        redis.away = True
        late, gone = Waiter(), Waiter()
        assert redis.logins.check(late, ANN) is None
        assert redis.logins.check(gone, ANN) is None
        gone.gone = True
        redis.time = failover.until() + 60.0
        await until(lambda: late.cause == "no_upstream")
        assert gone.cause == ""

    play(case)


def test_a_redis_that_is_away_closes_all_who_wait() -> None:
    async def case(redis: Redis) -> None:
        redis.reply = None
        waiters = [Waiter() for _ in range(3)]
        redis.answers.clear()
        for waiter in waiters:
            assert redis.logins.check(waiter, OWN) is None
        redis.answers.set()
        await until(lambda: all(waiter.gone for waiter in waiters))
        assert {waiter.cause for waiter in waiters} == {"no_upstream"}
        assert redis.opened[0].ended

    play(case)
