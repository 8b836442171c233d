"""A route in this process, as a worker makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

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
    policy: Policy = TRANSPARENT,
    *,
    counts: GroupCounts | None = None,
    on_second: Callable[[], None] = lambda: None,
    kind: Callable[..., Route] = Route,
    **settings: Any,
) -> Route:
    """Not started yet. It traces nothing, unless the settings say so."""
    route_settings = RouteSettings("r", (), upstream, PolicySource())
    loop = asyncio.get_running_loop()
    return kind(
        route_settings,
        Settings((route_settings,), **{"traces": 0, **settings}),
        topology,
        policy,
        loop,
        1,
        PlanCompiler(policy).find,
        lambda _: loop.create_future(),
        False,
        None,
        on_second,
        Admission(0),
        counts or counts_in(memoryview(bytearray(16)), 1, 0),
    )
