"""Faults of Sentinels, of names, and of clusters."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from pathlib import Path

from loadtest import moving_name
from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.failover.fake_sentinel import sentinels_naming, url_of
from tests.failures.fault import KEY, AnyFault, Fault, Stage, as_before, staged
from tests.keyrail_process import environment

PATIENT = {"cluster-node-timeout": "60000", "cluster-require-full-coverage": "no"}
"""A node that is lost stays in the map for a minute."""


class BehindSentinels(Stage):
    """Three of them."""

    def __init__(self, stack: ExitStack, policy: str, _folder: Path) -> None:
        super().__init__(stack, policy)
        self.engine = self.new_engine()
        self.sentinels = stack.enter_context(sentinels_naming(*[self.engine.port] * 3))
        self.begin(url_of(*self.sentinels))

    def end_sentinels(self, number: int) -> None:
        for each in self.sentinels[:number]:
            each.end()

    def begin_sentinels(self) -> None:
        for each in self.sentinels:
            each.end()
            each.begin()


class BehindAName(Stage):
    """Which leads to the one of two engines."""

    def __init__(self, stack: ExitStack, policy: str, folder: Path) -> None:
        super().__init__(stack, policy)
        self.engine, self.other = self.new_engine(), self.new_engine()
        self.name = moving_name.MovingName(folder, "redis.example")
        self.name.lead_to(self.engine.port)
        variables = dict(moving_name.environment(folder, environment()["PYTHONPATH"]))
        self.begin(f"redis://{self.name.host}:6379", variables=variables)

    def lead_to(self, *ports: int) -> None:
        """It is resolved when a connection is lost."""
        self.name.lead_to(*ports)
        self.engine.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def move(self) -> None:
        self.name.lead_to(self.other.port)
        self.engine.kill()

    def is_followed(self) -> bool:
        return self.said(f"127.0.0.1:{self.other.port} is the primary")


class BeforeACluster(Stage):
    """Three primaries, of which ``lost`` owns `KEY`."""

    def __init__(self, stack: ExitStack, policy: str, _folder: Path, *, of_lost: bool = True) -> None:
        super().__init__(stack, policy)
        self.cluster = RealCluster(kind_named("valkey-9.1"), PATIENT, replicas=0)
        stack.callback(self.cluster.close)
        self.lost = self.cluster.owner(slot_of(KEY.encode()))
        if not of_lost:
            names = (f"user:{number}:name" for number in count())
            self.key = next(each for each in names if not self.cluster.owns(self.lost, slot_of(each.encode())))
        self.begin(f"redis+cluster://127.0.0.1:{self.cluster.nodes[0].port}")

    def lose_all(self) -> None:
        for node in self.cluster.nodes:
            node.kill()

    def regain(self) -> None:
        for node in self.cluster.nodes:
            if node.process is None:
                node.start()

    def is_told(self, text: str, status: int) -> bool:
        return self.readyz(f"node 127.0.0.1:{self.lost.port}: {text}", status)


def other_keys(stack: ExitStack, policy: str, folder: Path) -> BeforeACluster:
    return BeforeACluster(stack, policy, folder, of_lost=False)


TOPOLOGY_FAULTS: tuple[AnyFault, ...] = (
    Fault(
        "a Sentinel is down",
        "`/readyz`: 200 with a line; log",
        2,
        "a reply; a reply",
        "a reply; a reply",
        staged(BehindSentinels),
        lambda stage: stage.end_sentinels(1),
        BehindSentinels.begin_sentinels,
        lambda stage: stage.readyz("Connection refused", 200),
    ),
    Fault(
        "all Sentinels are down",
        "`/readyz`: 200 with a line; log",
        2,
        "a reply; a reply",
        "a reply; a reply",
        staged(BehindSentinels),
        lambda stage: stage.end_sentinels(3),
        BehindSentinels.begin_sentinels,
        lambda stage: stage.readyz("no Sentinel answers", 200),
    ),
    Fault(
        "the name of Redis no longer resolves, and a connection is lost",
        "`/readyz`: 200 with a line; log",
        2,
        "a reply; a reply",
        "a reply; a reply",
        staged(BehindAName),
        BehindAName.lead_to,
        lambda stage: stage.lead_to(stage.engine.port),
        lambda stage: stage.readyz("cannot be resolved", 200),
    ),
    Fault(
        "the server behind a name dies, and the name leads to another one",
        "log",
        2,
        "a reply; a reply",
        "a reply; a reply",
        staged(BehindAName),
        BehindAName.move,
        as_before,
        BehindAName.is_followed,
    ),
    Fault(
        "a primary of a cluster dies, without a replica: its keys",
        "`/readyz`: 200 with a line; log",
        2,
        "CLUSTERDOWN; CLUSTERDOWN",
        "DENIED; DENIED",
        staged(BeforeACluster),
        lambda stage: stage.lost.kill(),
        BeforeACluster.regain,
        lambda stage: stage.is_told("Connection refused", 200),
    ),
    Fault(
        "a primary of a cluster dies, without a replica: keys of others",
        "`/readyz`: 200 with a line; log",
        2,
        "a reply; a reply",
        "a reply; a reply",
        staged(other_keys),
        lambda stage: stage.lost.kill(),
        BeforeACluster.regain,
        lambda stage: stage.is_told("Connection refused", 200),
    ),
    Fault(
        "a primary of a cluster is frozen: its keys",
        "`/readyz`: 200 with a line; log",
        3,
        "waits; waits",
        "DENIED; DENIED",
        staged(BeforeACluster),
        lambda stage: stage.lost.freeze(),
        lambda stage: stage.lost.thaw(),
        lambda stage: stage.is_told("it does not answer", 200),
    ),
    Fault(
        "a primary of a cluster is frozen: keys of others",
        "`/readyz`: 200 with a line; log",
        3,
        "a reply; a reply",
        "a reply; a reply",
        staged(other_keys),
        lambda stage: stage.lost.freeze(),
        lambda stage: stage.lost.thaw(),
        lambda stage: stage.is_told("it does not answer", 200),
    ),
    Fault(
        "all nodes of a cluster die",
        "`/readyz`: 503; log",
        2,
        "CLUSTERDOWN; CLUSTERDOWN",
        "DENIED; DENIED",
        staged(BeforeACluster),
        BeforeACluster.lose_all,
        BeforeACluster.regain,
        lambda stage: stage.readyz("Connection refused"),
    ),
)
