"""A name that leads to other servers than before, as names of containers and pods do: which server gets commands.

Proves: none that the name does not lead to, but for the one that has been in use; and a server that the name leads to
is used as soon as it can be, whatever becomes of the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from proxy.net.config.address import parse_upstream
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.connect import Opened, open_upstream
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.follow.name_watch import NameWatch, ServerState, _state_of
from proxy.net.route.route import Route
from proxy.net.topology.primary import Primary
from tests.conftest import kind_named
from tests.engines import Engine, free_port
from tests.failover.named import Play, at
from tests.failover.test_names import private
from tests.failover.test_sentinel_watch import connection, port_of, told
from tests.net.clock import Clock
from tests.resp import until


@pytest.fixture
def two() -> Iterator[list[Engine]]:
    """Two servers of different applications."""
    started = [Engine(kind_named("redis-7.0")) for _ in range(2)]
    yield started
    for each in started:
        each.close()


def test_the_address_has_another_server_now(play: Play, two: list[Engine]) -> None:
    """The names of two containers have swapped their addresses."""
    mine, other = two

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        await connection(route)
        addresses.clear()
        mine.kill()
        await until(lambda: not route.readiness.ready)
        await asyncio.to_thread(mine.start)  # it is another process, at the same address
        await until(lambda: "redis.example is not known to lead to" in route._connections.supply.reason)
        with pytest.raises(ConnectionError, match="no_upstream"):
            await connection(route)
        assert "cannot be resolved" in route.readiness.reason
        assert not route.readiness.ready
        addresses.append(at(other))
        await until(lambda: route.readiness.ready)
        assert port_of(await connection(route)) == other.port

    play(case, at(mine), wait=0.3)


def test_a_stranger_at_the_last_address_is_given_up_at_once(play: Play, two: list[Engine]) -> None:
    mine, other = two
    dead = free_port()

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        await connection(route)
        mine.kill()
        addresses[:] = [at(dead)]
        await asyncio.to_thread(mine.start)
        await until(lambda: topology.endpoint == at(dead))
        assert not route.readiness.ready
        addresses[:] = [at(other)]
        await until(lambda: topology.endpoint == at(other) and route.readiness.ready)

    play(case, at(mine), wait=60.0)


def test_the_same_server_goes_on_while_its_name_cannot_be_resolved(play: Play, two: list[Engine]) -> None:
    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        before = await connection(route)
        addresses.clear()
        await asyncio.to_thread(two[0].do, "CLIENT", "KILL", "TYPE", "normal")
        await until(lambda: before.closed)
        assert port_of(await connection(route)) == two[0].port
        assert port_of(await private(route)) == two[0].port

    play(case, at(two[0]))


def test_nobody_waits_for_a_resolver_that_hangs(play: Play, two: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    """The server in use proves by its run_id that it is the same one, also to clients that need a connection of their
    own."""

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        await connection(route)
        hangs = asyncio.Event()
        monkeypatch.setattr("proxy.net.topology.primary.resolve", lambda *_: hangs.wait())
        assert port_of(await private(route)) == two[0].port

    play(case, at(two[0]))


def test_a_connection_that_opens_while_the_primary_is_replaced_is_closed(
    play: Play, two: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        opening, old = route._connections.opening, topology.nodes[0]
        opened, go_on = asyncio.Event(), asyncio.Event()

        async def open_late(*args: Any) -> Opened:
            found = await open_upstream(*args)
            opened.set()
            await go_on.wait()
            return found

        await connection(route)
        monkeypatch.setattr("proxy.net.pool.opening.open_upstream", open_late)
        late = asyncio.ensure_future(opening.open_apart(old))
        await opened.wait()
        monkeypatch.setattr("proxy.net.pool.opening.open_upstream", open_upstream)
        addresses[:] = [at(two[1])]
        topology.doubt()
        await until(lambda: topology.endpoint == at(two[1]))
        go_on.set()
        with pytest.raises(ConnectionRefusedError, match="another server has taken its place"):
            await late
        assert old not in {each.key.node for each in route._connections.all.members.values()}

    play(case, at(two[0]))


def test_a_new_connection_finds_that_the_name_has_moved(play: Play, two: list[Engine]) -> None:
    """Nothing is wrong with the server before; so nothing else says it."""

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        before = await connection(route)
        addresses[:] = [at(two[1])]
        await private(route)
        await until(lambda: topology.endpoint == at(two[1]))
        await until(lambda: before.closed)
        assert port_of(await connection(route)) == two[1].port

    play(case, at(two[0]))


def test_the_name_leads_to_nobody_yet(play: Play, two: list[Engine]) -> None:
    """The server in use stays, with new connections, too: its run_id says that it is the same one."""
    dead = free_port()

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        before = await connection(route)
        addresses[:] = [at(dead)]
        assert port_of(await private(route)) == two[0].port
        await until(lambda: f"127.0.0.1:{dead}: Connection refused" in route.readiness.reason)
        assert not before.closed
        assert route.readiness.ready

    play(case, at(two[0]))


@pytest.mark.parametrize("answers", [True, False])
def test_the_name_leads_from_a_dead_server_to_no_primary(play: Play, servers: list[Engine], answers: bool) -> None:
    old, replica = servers
    there = at(replica) if answers else at(free_port())

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        await connection(route)
        old.kill()
        addresses[:] = [there]
        await until(lambda: topology.endpoint == there)
        await until(lambda: route.readiness.ready is answers)

    play(case, at(old), wait=0.2)


def test_a_server_is_given_up_if_it_is_silent_for_so_long_and_not_at_once() -> None:
    """In calm times nobody asks it; a look that it misses says nothing of the time before."""
    here, there = at(1), at(2)
    clock = Clock()
    try:
        watch = NameWatch(
            Primary(parse_upstream("redis://redis.example")), clock, 5.0, 2.0, lambda _: None, lambda _: None
        )
        seen = ServerState(replica=False, run_id=b"x")
        watch._adopt(here, seen)
        assert watch._choose([here], {here: seen}) == here
        clock.now += 3600.0
        assert watch._choose([there], {}) == here
        clock.now += 1.9
        assert watch._choose([there], {}) == here
        assert watch._choose([there], {here: seen}) == here
        clock.now += 1.9
        assert watch._choose([there], {}) == here
        clock.now += 2.0
        assert watch._choose([there], {}) == there
    finally:
        clock.close()


def test_a_frozen_server_whose_name_moves(play: Play, two: list[Engine]) -> None:
    """No connection is lost, so only the health checks notice: an answer that is late is enough, and nobody waits until
    the server counts as silent."""

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        assert route._liveness._silence == 60.0
        await connection(route)
        # One for clients, and one for health checks: nothing is to be opened any more.
        await until(lambda: len(route._connections.all.members) == 2)
        await until(lambda: not route._connections.all._tasks)
        two[0].freeze()
        addresses[:] = [at(two[1])]
        await until(lambda: topology.endpoint == at(two[1]))
        assert port_of(await connection(route)) == two[1].port

    try:
        play(case, at(two[0]), silence=60.0)
    finally:
        two[0].thaw()


async def look_again(topology: Primary, asked: list[str]) -> None:
    before = len(asked)
    topology.doubt()
    await until(lambda: len(asked) > before)


def test_a_resolver_that_gives_one_of_several_addresses(
    play: Play, two: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.net.follow.name_watch._UNSETTLED_SECONDS", 0.05)
    asked: list[str] = []

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        await connection(route)
        for turn in range(8):
            addresses[:] = [at(two[turn % 2])]
            await look_again(topology, asked)
        addresses[:] = [at(two[0])]
        there = ", ".join(sorted(f"127.0.0.1:{each.port}" for each in two))
        line = f"redis.example leads to several primaries in turn, {there}: commands go to {at(two[1])}"
        await until(lambda: line in route.readiness.reason)
        assert topology.nodes[0].number == 1, "it was left once"

    play(case, at(two[0]), asked=asked)


def test_several_primaries_are_told_once_whatever_their_order(
    play: Play, two: list[Engine], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.net.follow.name_watch._UNSETTLED_SECONDS", 0.05)
    asked: list[str] = []

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        await until(lambda: "several primaries" in route.readiness.reason)
        for _ in range(4):
            addresses.reverse()
            await look_again(topology, asked)

    play(case, at(two[0]), at(two[1]), asked=asked)
    assert len(told(caplog, "several primaries")) == 1


def test_who_does_not_tell_who_it_is_is_not_taken_for_another(play: Play) -> None:
    """One server at two addresses, which asks for a password that clients have."""
    server = Engine(kind_named("redis-7.0"), {"bind": "127.0.0.1 127.0.0.2", "requirepass": "secret"})

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        topology.doubt()
        await until(lambda: topology.endpoint is not None)
        assert route.readiness.reason == ""

    try:
        play(case, at(server), Endpoint("127.0.0.2", server.port))
    finally:
        server.close()


def test_a_server_that_answers_late_once_is_asked_again_while_there_is_no_other(
    play: Play, two: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.net.follow.name_watch._UNSETTLED_SECONDS", 0.05)
    monkeypatch.setattr("proxy.net.topology.links._SILENT_SECONDS", 3600.0)
    asked: list[str] = []
    late = [asyncio.Event()]

    async def answer(link: UpstreamConnection, server: Endpoint) -> ServerState:
        if late:
            await late.pop().wait()
        return await _state_of(link, server)

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        await connection(route)
        monkeypatch.setattr("proxy.net.follow.name_watch._state_of", answer)
        addresses[:] = [at(free_port())]
        for _ in range(10):
            await look_again(topology, asked)
        assert not late
        assert topology.endpoint == at(two[0])

    play(case, at(two[0]), asked=asked, wait=0.2)


class VirtualAddress:
    """An address whose new connections lead where ``target`` says."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers += [writer, to]
        await asyncio.gather(self._copy(reader, to), self._copy(there, writer))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                sink.write(data)
        except OSError:
            pass
        sink.close()

    def close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()


def test_another_server_behind_one_address(play: Play, servers: list[Engine]) -> None:
    """What said that it is a replica is asked on a new connection the next time."""
    primary, replica = servers

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        virtual = VirtualAddress(replica.port)
        try:
            addresses.append(at(await virtual.start()))
            await until(lambda: "which is a replica" in route.readiness.reason)
            virtual.target = primary.port
            await until(lambda: not route.readiness.reason)
            assert not topology.is_replica
        finally:
            virtual.close()

    play(case)
