"""Real Sentinels for tests: a group that the tests of a file share, and one that a test may break."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.conftest import kind_named, rest_is_long
from tests.engines import Engine
from tests.failover.group import RealGroup
from tests.failover.named import Play, player
from tests.resp import eventually


@pytest.fixture(scope="module", params=rest_is_long("redis-7.0", "valkey-9.1"))
def group(request: pytest.FixtureRequest) -> Iterator[RealGroup]:
    """A primary, two replicas and three Sentinels. A test may fail it over, and leaves all of its servers running."""
    started = RealGroup(kind_named(str(request.param)))
    yield started
    started.close()


@pytest.fixture(scope="module")
def trio() -> Iterator[list[Engine]]:
    """Two primaries, and a replica of the first. No test changes them."""
    started = [Engine(kind_named("valkey-9.1"), {"repl-diskless-sync-delay": "0"}) for _ in range(3)]
    started[2].do("REPLICAOF", "127.0.0.1", started[0].port)
    eventually(lambda: started[2].info("replication").get("master_link_status") == "up")
    yield started
    for each in started:
        each.close()


@pytest.fixture
def servers() -> Iterator[list[Engine]]:
    """A primary and its replica, which a test may swap."""
    started = [Engine(kind_named("redis-7.0"), {"repl-diskless-sync-delay": "0"}) for _ in range(2)]
    started[1].do("REPLICAOF", "127.0.0.1", started[0].port)
    eventually(lambda: started[1].info("replication").get("master_link_status") == "up")
    yield started
    for each in started:
        each.close()


@pytest.fixture
def play(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Run a case behind a name. Nobody looks just because something has changed a moment ago."""
    caplog.set_level(logging.INFO, "keyrail.route")
    monkeypatch.setattr("proxy.net.follow.watch._CALM_SECONDS", 0.0)
    return player(monkeypatch)
