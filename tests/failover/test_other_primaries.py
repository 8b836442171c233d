"""A server that calls itself primary while the Sentinels name another one: nobody uses it, and operators are told.

The Sentinels are made up, the servers are real. `test_failovers.py` does the same with real Sentinels.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from proxy.net.route.route import Route
from proxy.net.topology.primary import Primary
from tests.engines import Engine, client_ids, free_port
from tests.failover.fake_sentinel import FakeSentinel, at
from tests.failover.test_sentinel_watch import connection, play, port_of, told
from tests.resp import until


def line_of(other: int, primary: int) -> str:
    return (
        f"127.0.0.1:{other} calls itself a primary, too: "
        f"commands go to 127.0.0.1:{primary}, and writes around Keyrail will be lost"
    )


@pytest.fixture(autouse=True)
def _lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "keyrail.route")


def list_replicas(sentinels: list[FakeSentinel], replicas: Mapping[int, bool]) -> None:
    """They list these: whether each one replicates."""
    for each in sentinels:
        each.replicas = dict(replicas)


def test_the_deposed_primary_goes_on_as_primary(
    trio: list[Engine], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.net.follow.other_primaries._PROMOTION_SECONDS", 3600.0)
    old, new = trio[0].port, trio[1].port

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        for each in sentinels:
            each.primary = new
        list_replicas(sentinels, {old: False})
        await until(lambda: line_of(old, new) in route.readiness.reason and route.readiness.ready)
        assert port_of(await connection(route)) == new
        list_replicas(sentinels, {old: True})
        await until(lambda: not route.readiness.reason)

    play(case, old, old, old)
    assert len(told(caplog, line_of(old, new))) == 1
    assert len(told(caplog, "all Sentinels agree")) == 1


@pytest.mark.parametrize("patience", [0.0, 3600.0])
def test_a_server_that_was_no_primary_before_may_be_one_that_is_being_promoted(
    trio: list[Engine], monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    monkeypatch.setattr("proxy.net.follow.other_primaries._PROMOTION_SECONDS", patience)
    primary, other = trio[0].port, trio[1].port

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        before = len(client_ids_of(trio[1]))
        list_replicas(sentinels, {other: False})
        await until(lambda: len(client_ids_of(trio[1])) > before)
        if patience:
            sentinels[0].primary = None  # two more problems: a look has gone by since
            await until(lambda: "names no primary" in route.readiness.reason)
            assert "calls itself" not in route.readiness.reason
        else:
            await until(lambda: line_of(other, primary) in route.readiness.reason)

    play(case, primary, primary, primary)


def client_ids_of(engine: Engine) -> set[int]:
    with engine.wire() as wire:
        return client_ids(wire)


def test_replicas_in_trouble_and_servers_that_are_gone_are_no_primaries(
    trio: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.net.follow.other_primaries._PROMOTION_SECONDS", 0.0)

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        list_replicas(sentinels, {trio[2].port: False, free_port(): False, trio[1].port: False})
        await until(lambda: route.readiness.reason)
        assert route.readiness.reason.endswith(line_of(trio[1].port, trio[0].port))
        assert route.readiness.reason.count("calls itself") == 1

    play(case, *[trio[0].port] * 3)


def test_what_one_sentinel_alone_lists_is_not_asked(trio: list[Engine]) -> None:
    """It would get Keyrail's password."""
    lie = trio[1].port

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        before = client_ids_of(trio[1])
        list_replicas(sentinels[:1], {lie: False})
        sentinels[1].primary = None
        await until(lambda: "names no primary" in route.readiness.reason)
        assert topology.endpoint == at(trio[0].port)
        assert len(client_ids_of(trio[1])) == len(before)

    play(case, *[trio[0].port] * 3)
