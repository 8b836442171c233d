"""Which servers a scan walks, and when it gives up."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from proxy.net.config.address import parse_upstream
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.engine import Engine
from proxy.net.connection.tls import upstream_context
from proxy.net.topology.slot_map import ClusterNode, SlotMap
from proxy.server.stored import scanner as module
from proxy.server.stored.node_run import NodeLostError
from proxy.server.stored.node_walk import ScanRefusedError
from proxy.server.stored.scanner import Options, ScanError, Scanner, WallClock
from proxy.server.stored.servers import Servers
from proxy.server.stored.slot_moves import SlotMoves
from tests.server.stored.fake_servers import FakeCluster, FakeJudge
from tests.server.stored.test_pace import VirtualClock


def test_a_node_that_refuses_ends_the_scan_and_all_that_do_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN", 0.01)
    scanner = Scanner(parse_upstream("redis://h"), None, FakeJudge(), str, Options(), WallClock())
    seen = FakeCluster(Random(1), [b"a", b"b", b"c"]).seen()
    refusing, walking = [*seen.nodes][:2], [*seen.nodes][2:]
    cancelled: list[str] = []

    async def walk(node: ClusterNode, *_: object) -> None:
        if node.id in refusing:
            raise ScanRefusedError("SCAN: NOPERM")
        try:
            await asyncio.Event().wait()  # it walks on until it is cancelled
        finally:
            cancelled.append(node.id)

    monkeypatch.setattr(scanner, "_walk_node", walk)

    async def go() -> None:
        moves = SlotMoves()
        due = [*seen.nodes.values()]
        moves.begin(due)
        async with asyncio.timeout(5):
            await scanner._walk_all(due, seen, moves, {})

    with pytest.raises(ScanError) as failed:
        asyncio.run(go())
    assert str(failed.value).count("SCAN: NOPERM") == 2
    assert all(name[:8] in str(failed.value) for name in refusing)
    assert cancelled == walking


def test_a_port_without_tls_names_no_option_that_a_scan_lacks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = parse_upstream(f"rediss://127.0.0.1:{silent.getsockname()[1]}?verify=none")
        assert address.tls is not None
        tls = upstream_context(address.tls, lambda _: None)
        scanner = Scanner(address, tls, FakeJudge(), str, Options(seconds=0.05), WallClock())
        with pytest.raises(ScanError, match=r"no answer in time$"):
            asyncio.run(scanner.run())


def test_replicas_take_turns_and_their_links_are_up(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(parse_upstream("redis+cluster://h"), None, 1.0, replicas=True)
    links = {7001: b"connected", 7002: b"connect"}

    async def ask(address: Any) -> tuple[Engine, list[object]]:
        return Engine(), [b"slave", b"h", 7000, links[address.port], 1]

    monkeypatch.setattr(servers, "_ask", ask)
    primary = ClusterNode("p", Endpoint("h", 7000))
    replicas = {
        name: ClusterNode(name, Endpoint("h", port), primary_id="p") for name, port in (("a", 7001), ("b", 7002))
    }
    seen = SlotMap({"p": primary, **replicas}, frozenset())

    def found(turn: int, of: SlotMap) -> tuple[int, str]:
        place = asyncio.run(servers.of_node(primary, of, turn))
        return place.address.port, place.replica

    assert found(0, seen) == found(2, seen) == (7001, "h:7001")
    with pytest.raises(ConnectionRefusedError, match="the link of its replica h:7002 to it is down"):
        found(1, seen)
    assert found(0, SlotMap({"p": primary}, frozenset())) == (7000, "")


class Failing:
    """A cluster in which the walk of a primary ends in the middle; ``after`` so many seconds another node has its
    slots."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: float) -> None:
        self.clock = VirtualClock()
        self.scanner = Scanner(parse_upstream("redis+cluster://h"), None, FakeJudge(), str, Options(), self.clock)
        self.walked: list[str] = []
        self._seen = FakeCluster(Random(1), [b"a", b"b", b"c"]).seen()
        self._lost, *_ = self._seen.nodes.values()
        self._after = self.clock.time + after
        monkeypatch.setattr(self.scanner._servers, "slot_map", self._slot_map)
        monkeypatch.setattr(self.scanner, "_walk_node", self._walk)

    async def _slot_map(self) -> SlotMap:
        if self._lost.id not in self.walked:
            return self._seen
        nodes = {**self._seen.nodes, self._lost.id: replace(self._lost, failed=True)}
        if self.clock.time >= self._after:
            nodes[self._lost.id] = replace(self._lost, failed=True, slots=())
            nodes["new"] = replace(self._lost, id="new", epoch=9)
        return SlotMap(nodes)

    async def _walk(self, node: ClusterNode, *_: object) -> None:
        self.walked.append(node.id)
        if node is self._lost:
            raise NodeLostError("connection lost")


def test_a_primary_that_has_failed_is_waited_for_until_another_node_has_its_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing = Failing(monkeypatch, after=30.0)
    asyncio.run(failing.scanner.run())
    assert failing.walked[-1] == "new"
    assert failing.scanner.finished


def test_a_scan_without_the_keys_of_a_failed_primary_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, after=1e9)
    with pytest.raises(ScanError, match=r"^1 slots belong to primaries that have failed: their keys are missing$"):
        asyncio.run(failing.scanner.run())
    assert not failing.scanner.finished
    assert len(failing.walked) == 3
