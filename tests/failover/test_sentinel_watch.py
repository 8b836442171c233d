"""A route that Sentinels tell the primary of: whom it believes, and what it tells about the others.

The Sentinels are made up, so that each can lie. The servers are real: their ROLE must agree.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from proxy.commands.table import Lane
from proxy.net.config.address import parse_upstream
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.follow.sentinel_watch import find_primary
from proxy.net.route.route import Route
from proxy.net.topology.primary import Primary
from proxy.session.ports.pool_key import ANY_NODE, PoolKey
from tests.engines import Engine, free_port
from tests.failover.fake_sentinel import FakeSentinel, at, introduce, url_of
from tests.net.routes import new_route
from tests.net.test_three_nodes import Waiter
from tests.resp import until

KEY = PoolKey(None, 0, 2, ANY_NODE)
Case = Callable[[Route, Primary, list[FakeSentinel]], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def _lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "keyrail.route")


def told(caplog: pytest.LogCaptureFixture, *words: str) -> list[str]:
    return [line for line in caplog.messages if all(word in line for word in words)]


def play(
    case: Case,
    *primaries: int | None,
    named: int = 3,
    options: str = "",
    made: Callable[[FakeSentinel], None] | None = None,
) -> None:
    """Run a case with Sentinels that name these ports; the URL has the first ``named`` of them."""

    async def main() -> None:
        sentinels = [await FakeSentinel(f"id{number}", port).start() for number, port in enumerate(primaries)]
        introduce(sentinels)
        for each in sentinels if made is not None else ():
            assert made is not None
            made(each)
        upstream = parse_upstream(url_of(*sentinels[:named], options=options))
        topology = Primary(upstream)
        route = new_route(upstream, topology)
        await route.start()
        try:
            await case(route, topology, sentinels)
        finally:
            route.close()
            for each in sentinels:
                each.stop()

    asyncio.run(main())


async def connection(route: Route) -> UpstreamConnection:
    """The shared connection that clients get."""
    while (found := route.ports.pools.shared(KEY, Lane.FAST)) is None:
        waiter = Waiter()
        route.ports.pools.await_shared(waiter, KEY, Lane.FAST)
        await waiter.came
    return route._connections.all.members[found]


def port_of(upstream: UpstreamConnection) -> int:
    assert upstream.transport is not None
    return int(upstream.transport.get_extra_info("peername")[1])


def test_all_agree(trio: list[Engine]) -> None:
    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        assert port_of(await connection(route)) == trio[0].port
        assert route.readiness.reason == ""
        node = route.snapshot()["nodes"][0]
        assert (node["address"], node["role"], node["health"]) == (f"127.0.0.1:{trio[0].port}", "primary", "ok")

    play(case, *[trio[0].port] * 3)


def test_a_majority_moves(trio: list[Engine], caplog: pytest.LogCaptureFixture) -> None:
    old, new = trio[0].port, trio[1].port

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        before = await connection(route)
        sentinels[0].primary = new
        sentinels[0].publish("+switch-master")
        await until(lambda: f"127.0.0.1:{sentinels[0].port} names 127.0.0.1:{new}" in route.readiness.reason)
        assert topology.endpoint == at(old)
        assert not before.closed
        assert route.readiness.ready
        question = before.ask(["BLPOP", "nothing", "0"])
        sentinels[1].primary = new
        with pytest.raises(ConnectionResetError):
            await question
        assert port_of(await connection(route)) == new
        assert topology.endpoint == at(new)
        sentinels[2].primary = new
        await until(lambda: not route.readiness.reason)

    play(case, old, old, old)
    assert len(told(caplog, f"names 127.0.0.1:{new}, and most others 127.0.0.1:{old}")) == 1
    assert len(told(caplog, "all Sentinels agree")) == 1


def test_an_event_of_a_sentinel_is_a_reason_to_look(trio: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.net.follow.watch.POLL_SECONDS", 3600.0)
    monkeypatch.setattr("proxy.net.follow.watch._CALM_SECONDS", 0.0)

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: not route.readiness.reason)
        for each in sentinels:
            each.primary = trio[1].port
        sentinels[2].publish("+switch-master")
        await until(lambda: topology.endpoint == at(trio[1].port))

    play(case, *[trio[0].port] * 3)


def test_whoever_waits_gets_the_new_primary(trio: list[Engine]) -> None:
    dead = free_port()

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        assert not route.readiness.ready
        assert f"primary 127.0.0.1:{dead}: Connection refused" in route.readiness.reason
        waiting = [asyncio.ensure_future(connection(route)) for _ in range(3)]
        await asyncio.sleep(0)
        for each in sentinels:
            each.primary = trio[1].port
        assert {port_of(each) for each in await asyncio.gather(*waiting)} == {trio[1].port}

    play(case, dead, dead, dead)


def test_all_sentinels_end(trio: list[Engine], caplog: pytest.LogCaptureFixture) -> None:
    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        before = await connection(route)
        for each in sentinels:
            each.stop()
        await until(lambda: "no Sentinel answers" in route.readiness.reason)
        assert route.readiness.ready
        assert not before.closed
        assert await before.ask(["PING"]) == b"+PONG\r\n"
        for each in sentinels:
            await each.start()
        await until(lambda: not route.readiness.reason)

    play(case, *[trio[0].port] * 3)
    assert len(told(caplog, "no Sentinel answers; Sentinel 127.0.0.1:", "Connection refused")) == 1
    assert len(told(caplog, "all Sentinels agree")) == 1


def test_one_of_three_ends_and_one_is_silent(trio: list[Engine], caplog: pytest.LogCaptureFixture) -> None:
    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        sentinels[0].stop()
        await until(lambda: f"{sentinels[0].port}: Connection refused" in route.readiness.reason)
        for each in sentinels[1:]:
            each.primary = trio[1].port
        await until(lambda: topology.endpoint == at(trio[1].port))
        sentinels[1].silent = True
        sentinels[2].primary = trio[0].port
        await until(lambda: "1 of 3 Sentinels answer" in route.readiness.reason)
        assert topology.endpoint == at(trio[1].port)
        assert route.readiness.ready

    play(case, *[trio[0].port] * 3)
    assert len(told(caplog, "1 of 3 Sentinels answer", "it does not answer")) == 1


def test_a_pause_of_this_process_is_no_loss_of_the_majority(
    trio: list[Engine], caplog: pytest.LogCaptureFixture
) -> None:
    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready and not route.readiness.reason)
        for turns in (1, 4, 7, 10):
            topology.doubt()
            for _ in range(turns):  # a look has begun, and is so far
                await asyncio.sleep(0)
            time.sleep(0.6)  # noqa: ASYNC251 - the process is paused
            for _ in range(20):
                await asyncio.sleep(0.005)
                assert not route.readiness.reason

    play(case, *[trio[0].port] * 3)
    assert not told(caplog, "no majority")
    assert not told(caplog, "does not answer")


def test_nobody_is_believed_at_the_start_without_a_majority(trio: list[Engine]) -> None:
    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        assert not route.readiness.ready
        assert "no majority of the Sentinels names one primary" in route.readiness.reason
        assert topology.endpoint is None
        sentinels[0].primary = trio[1].port
        assert port_of(await connection(route)) == trio[1].port

    play(case, None, trio[0].port, trio[1].port)


def test_a_name_that_no_sentinel_knows(trio: list[Engine], caplog: pytest.LogCaptureFixture) -> None:
    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        assert "the Sentinels know no primary named 'mymaster'" in route.readiness.reason
        assert not route.readiness.ready

    play(case, None, None, None)
    assert len(told(caplog, "the Sentinels know no primary named 'mymaster'")) == 1


def test_sentinels_that_others_know_are_asked(trio: list[Engine]) -> None:
    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        sentinels[0].stop()
        for each in sentinels[1:]:
            each.primary = trio[1].port
        await until(lambda: topology.endpoint == at(trio[1].port))

    play(case, *[trio[0].port] * 3, named=1)


def test_one_look_is_enough_to_know_all_sentinels(trio: list[Engine]) -> None:
    async def main() -> None:
        sentinels = [await FakeSentinel(f"id{number}", trio[0].port).start() for number in range(3)]
        introduce(sentinels)
        upstream = parse_upstream(url_of(sentinels[1], database="/2"))
        assert upstream.sentinels is not None
        found, problem = await find_primary(upstream, upstream.sentinels, None, 5.0)
        assert (str(found), problem) == (f"redis://127.0.0.1:{trio[0].port}/2", "")
        for each in sentinels:
            each.stop()

    asyncio.run(main())


def test_a_sentinel_that_has_left_is_forgotten(trio: list[Engine]) -> None:
    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        sentinels[2].stop()
        await until(lambda: f"{sentinels[2].port}: Connection refused" in route.readiness.reason)
        for each in sentinels[:2]:
            del each.others["id2"]
        await until(lambda: not route.readiness.reason)

    play(case, *[trio[0].port] * 3, named=2)


def test_the_only_named_sentinel_forgets_the_others_and_is_cut_off_from_them(trio: list[Engine]) -> None:
    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready and sentinels[1].subscribers() == 1)
        sentinels[0].others.clear()
        sentinels[0].primary = trio[1].port
        await until(lambda: "most others" in route.readiness.reason)
        for each in sentinels[1:]:
            each.stop()
        await until(lambda: "1 of 3 Sentinels answer" in route.readiness.reason)
        assert topology.endpoint == at(trio[0].port)
        for each in sentinels[1:]:
            await each.start()
            each.primary = trio[1].port
        await until(lambda: topology.endpoint == at(trio[1].port))

    play(case, *[trio[0].port] * 3, named=1)


def test_a_named_sentinel_is_at_another_address_now(trio: list[Engine]) -> None:
    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        sentinels[0].stop()
        await until(lambda: f"{sentinels[0].port}: Connection refused" in route.readiness.reason)
        sentinels[0].port = 0
        await sentinels[0].start()
        introduce(sentinels)
        sentinels[2].stop()
        for each in sentinels[:2]:
            each.primary = trio[1].port
        await until(lambda: topology.endpoint == at(trio[1].port))

    play(case, *[trio[0].port] * 3)


def test_a_liar_brings_its_friends(trio: list[Engine]) -> None:
    """Three of five voices would be a majority, if those that one Sentinel alone lists had any."""
    truth, lie = trio[0].port, trio[1].port

    def lies(sentinel: FakeSentinel) -> None:
        if sentinel.primary == truth:
            del sentinel.others["id3"], sentinel.others["id4"]

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: "names" in route.readiness.reason)
        assert topology.endpoint == at(truth)
        assert not any(each.accepted for each in sentinels[3:])

    play(case, truth, truth, lie, lie, lie, made=lies)


def test_sentinels_before_6_2_are_known_by_their_addresses(trio: list[Engine]) -> None:
    def grow_old(sentinel: FakeSentinel) -> None:
        sentinel.old = True

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)

    play(case, *[trio[0].port] * 3, made=grow_old)


def test_passwords_of_sentinels(trio: list[Engine], tmp_path: Any) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")

    def ask_for_it(sentinel: FakeSentinel) -> None:
        sentinel.password = "secret" if sentinel.my_id != "id2" else "other"

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        assert f"{sentinels[2].port}: it refuses the connection: WRONGPASS" in route.readiness.reason

    options = f"?sentinel_user=watcher&sentinel_password_file={file}"
    play(case, *[trio[0].port] * 3, options=options, made=ask_for_it)


def test_addresses_behind_nat(trio: list[Engine], tmp_path: Any) -> None:
    announced = free_port()
    file = tmp_path / "nat"
    file.write_text(f"127.0.0.1:{announced} 127.0.0.1:{trio[0].port}\n")

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        assert port_of(await connection(route)) == trio[0].port

    play(case, *[announced] * 3, options=f"?map={file}")


def test_clients_that_rely_on_the_old_process_are_closed(trio: list[Engine]) -> None:
    """Their scripts are not on the new primary; other clients stay."""

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await connection(route)
        relies = Waiter()
        route.ports.pools.relies_on_process(relies)
        for each in sentinels:
            each.primary = trio[1].port
        with pytest.raises(ConnectionError, match="redis_restarted"):
            await relies.came

    play(case, *[trio[0].port] * 3)
