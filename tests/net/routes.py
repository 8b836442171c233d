"""A route in this process, as a worker makes it."""

from __future__ import annotations

import asyncio

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.settings import PolicySource, RouteSettings, Settings
from proxy.net.connection.group_counts import GroupCounts, counts_in
from proxy.net.downstream.admission import Admission
from proxy.net.policy.plan_compiler import PlanCompiler
from proxy.net.route.route import Route
from proxy.net.topology.topology import Topology
from proxy.policy.model import TRANSPARENT, Policy


def new_route(
    upstream: UpstreamAddress,
    topology: Topology,
    failover_wait: float = 2.0,
    counts: GroupCounts | None = None,
    silence: float = 3.0,
    policy: Policy = TRANSPARENT,
    traces: int = 0,
) -> Route:
    """Not started yet."""
    settings = RouteSettings("r", (), upstream, PolicySource())
    loop = asyncio.get_running_loop()
    return Route(
        settings,
        Settings((settings,), traces=traces, failover_wait=failover_wait, upstream_silence=silence),
        topology,
        policy,
        loop,
        1,
        PlanCompiler(policy).find,
        lambda _: loop.create_future(),
        False,
        None,
        lambda: None,
        Admission(0),
        counts or counts_in(memoryview(bytearray(16)), 1, 0),
    )
