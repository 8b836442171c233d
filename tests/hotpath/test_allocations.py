"""How many Python objects a thousand commands are in memory as, while their replies are pending and when these have
gathered: no more than one for each run and reply, whatever the depth of the pipeline, and none once all is over.

What lives only within one call is not seen.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import pytest

from proxy.build_form import BUILD_FORM
from proxy.commands.table import STANDARD
from proxy.hotpath.cluster.router import Router
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.upstream.outgoing import Redirects
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.policy.load import load_policy
from proxy.policy_yaml.shipped import packaged
from tests.hotpath.gathering import Client, pack
from tests.hotpath.listening import Listener, never
from tests.hotpath.remembering import GET as HOT
from tests.hotpath.remembering import Cached
from tests.hotpath.routed import owners
from tests.policy.test_plan_agrees import compiled

COMMANDS = 1000
FEW = 5
"""Blocks that a count takes itself."""
_OF_TWO_NODES, _SPARE = 13, 100
"""Blocks of one client, and those that are kept for the next ones."""

pytestmark = pytest.mark.skipif(BUILD_FORM != "compiled", reason="interpreted, numbers are objects, too")


class Crowd:
    """Clients that share one connection to each node, ``depth`` commands of each."""

    def __init__(self, depth: int, plan: Plan | None = None, nodes: int = 0) -> None:
        redirects: Redirects | None = (lambda *_: None) if nodes else None
        self.upstreams = [UpstreamPipeline(Listener(), never, None, redirects) for _ in range(max(1, nodes))]
        for each in self.upstreams:
            each.usable = True
            each.write = _taken
        self.clients = [Client(plan) for _ in range(COMMANDS // depth)]
        router = Router(owners(nodes)) if nodes else None
        for client in self.clients:
            client.sender.upstream = self.upstreams[0]
            client.sender.write = _taken
            client.intake.config.router = router
            client.sender.nodes = list(self.upstreams) if nodes else None

    def ask(self, data: bytes) -> None:
        for client in self.clients:
            client.intake.receive(data)
        for each in self.upstreams:
            each.flush()

    def answer(self, reply: bytes) -> None:
        for each in self.upstreams:
            due = sum(entry.due for entry in each.entries())
            each.receive(reply * due)

    def pending(self) -> int:
        return sum(_pending(client.sender) for client in self.clients)


def _pending(sender: CommandSender) -> int:
    return sender.pending_replies


def _taken(_: bytes) -> None:
    pass


def grown(act: Callable[[], object]) -> int:
    """By how many blocks memory has grown."""
    before = sys.getallocatedblocks()
    act()
    return sys.getallocatedblocks() - before


def strict() -> Plan:
    plan = compiled(load_policy(packaged("strict")), STANDARD, seed=1).plan
    plan.spends = False  # its limits are of users and addresses, whom only sessions know
    return plan


def measured(crowd: Crowd, data: bytes, reply: bytes) -> tuple[int, int]:
    """Blocks while all replies are pending, and when they have been sent."""
    for _ in range(3):  # what is made once is there then
        crowd.ask(data)
        crowd.answer(reply)
    gc.collect()
    gc.disable()
    try:
        asked = grown(lambda: crowd.ask(data))
        assert crowd.pending() == COMMANDS
        answered = asked + grown(lambda: crowd.answer(reply))
    finally:
        gc.enable()
    assert crowd.pending() == 0
    return asked, answered


GET, SET = pack("GET", "user:1:name"), pack("SET", "user:1:name", "v" * 64)


@pytest.mark.parametrize("depth", [1, 10, 50])
@pytest.mark.parametrize("command", [GET, SET], ids=["GET", "SET"])
@pytest.mark.parametrize("policy", ["none", "strict"])
def test_a_run_is_one_object_until_it_is_answered(policy: str, command: bytes, depth: int) -> None:
    crowd = Crowd(depth, strict() if policy == "strict" else None)
    reply = b"+OK\r\n" if command == SET else b"$4\r\nname\r\n"
    edited = policy == "strict" and command == SET
    asked, answered = measured(crowd, command * depth, reply)
    runs = COMMANDS // depth
    assert asked <= (2 if edited else 1) * runs + FEW
    assert answered <= FEW


@pytest.mark.parametrize("depth", [1, 10, 50])
def test_with_several_nodes_a_run_to_one_is_one_object(depth: int) -> None:
    crowd = Crowd(depth, nodes=2)
    asked, answered = measured(crowd, GET * depth, b"$4\r\nname\r\n")
    assert asked <= COMMANDS // depth + FEW
    assert answered <= FEW


@pytest.mark.parametrize("depth", [2, 10, 50])
def test_runs_to_two_nodes_are_no_more_objects_with_more_commands(depth: int) -> None:
    """Two runs, what is kept of them to send them again, and the order of their replies."""
    crowd = Crowd(depth, nodes=2)
    data = (pack("GET", "a") + pack("GET", "b")) * (depth // 2)
    asked, answered = measured(crowd, data, b"$4\r\nname\r\n")
    assert asked <= _OF_TWO_NODES * COMMANDS // depth + FEW
    assert answered <= _SPARE


def test_a_hit_is_no_object() -> None:
    client = Cached()
    client.sender.write = _taken
    data = HOT * COMMANDS
    for _ in range(3):
        client.intake.receive(data)
    gc.collect()
    before = client.use.hits
    assert grown(lambda: client.intake.receive(data)) <= FEW
    assert client.use.hits == before + COMMANDS


def test_a_thousand_objects_would_be_seen() -> None:
    kept: list[object] = []
    assert grown(lambda: kept.extend(object() for _ in range(COMMANDS))) >= COMMANDS
