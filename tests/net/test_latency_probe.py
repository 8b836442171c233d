"""Each node's PINGs feed its own circuit: failures open it only while nobody waits for another server and the node does
not say that it is loading."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.net.pool.latency_probe import LatencyProbe
from proxy.rules.breaker.rule import BreakerSettings, Circuits
from proxy.rules.memory import Memory
from proxy.session.ports.pool_key import Node, PoolKey
from tests.conftest import seeds

NODES = tuple(Node(number) for number in range(3))
REPLIES = {"is well": b"+PONG\r\n", "loads": b"-LOADING x\r\n", "is busy": b"-BUSY x\r\n", "refuses": b"-NOPERM x\r\n"}
KINDS = (*REPLIES, "is gone", "hangs")
FAILURES = ("is busy", "is gone", "hangs")


class Upstream:
    """A connection to a node; ``kind`` says how the node does."""

    def __init__(self, key: PoolKey) -> None:
        self.key = key
        self.kind = "is well"
        self.open: list[Any] = []

    def ask(self, _: object) -> Any:
        question: Any = SimpleNamespace(
            add_done_callback=lambda act: self._asked(act, question),
            cancelled=lambda: False,
            exception=lambda: None,
            result=lambda: REPLIES[self.kind],
        )
        return question

    def _asked(self, act: Any, question: Any) -> None:
        self.open.append(lambda: act(question))

    def answer(self) -> None:
        """Answer what is open, unless the node hangs or is gone."""
        if self.kind in REPLIES:
            pending, self.open = self.open, []
            for each in pending:
                each()


class World:
    """A clock, the pools of three nodes, and the probe of a breaker."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting = False
        self.upstreams = [Upstream(PoolKey(None, 0, 2, node)) for node in NODES]
        self.memory = Memory()
        self.circuits = self.memory.of("ill", "settings", lambda: Circuits(BreakerSettings(failing_for=2.0)))
        pools: Any = self
        topology: Any = SimpleNamespace(
            nodes=NODES, router=SimpleNamespace(owner=lambda slot: slot % 3), address=lambda node: f"n{node.number}"
        )
        loop: Any = self
        self.probe = LatencyProbe(
            loop, self.memory, pools, topology, lambda: self.waiting, lambda: self.now, lambda _: None
        )

    def time(self) -> float:
        return self.now

    def __iter__(self) -> Any:
        return iter([SimpleNamespace(shared=lambda _, each=each: each) for each in self.upstreams])

    def home_of(self, node: Node) -> int:
        return node.number

    def alive(self, number: int) -> bool:
        return self.upstreams[number].kind != "is gone"

    def beat(self) -> None:
        """A tenth of a second goes by."""
        self.probe._ask()
        self.now += 0.1
        for each in self.upstreams:
            each.answer()
        self.probe._observe(self.probe._circuits())

    def restricted(self) -> set[int]:
        """The nodes whose circuits are not closed."""
        return {number for number in range(3) if self.circuits.description(number) != "closed"}


@pytest.mark.parametrize("seed", seeds(40, 400))
def test_a_circuit_is_open_only_where_its_own_node_fails(seed: int) -> None:
    random, world = Random(seed), World()
    for _ in range(12):
        world.waiting = random.random() < 0.3
        for each in world.upstreams:
            each.kind = random.choice(KINDS)
        before = world.restricted()
        for _ in range(random.choice((5, 40))):
            world.beat()
        for number, each in enumerate(world.upstreams):
            if each.kind in ("is well", "refuses"):
                assert number not in world.restricted(), (seed, each.kind)
            if number in world.restricted() - before:
                assert each.kind in FAILURES, (seed, each.kind)
                assert not world.waiting, seed


@pytest.mark.parametrize("kind", FAILURES)
def test_it_opens_when_the_wait_is_over(kind: str) -> None:
    world = World()
    world.upstreams[1].kind, world.waiting = kind, True
    for _ in range(40):
        world.beat()
    assert world.restricted() == set()
    world.waiting = False
    world.beat()
    assert world.restricted() == {1}
