"""One route in one worker: the figures of a second are there when it is over, whatever Redis does."""

from __future__ import annotations

import asyncio

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.settings import PolicySource, RouteSettings, Settings
from proxy.net.connection.group_counts import counts_in
from proxy.net.downstream.admission import Admission
from proxy.net.policy.plan_compiler import PlanCompiler
from proxy.net.route.route import Route
from proxy.net.topology.topology import Single
from proxy.policy.model import TRANSPARENT
from tests.engines import free_port


def test_who_tells_of_a_second_hears_when_it_is_over() -> None:
    told: list[int] = []

    async def main() -> None:
        route_settings = RouteSettings("r", (), UpstreamAddress(port=free_port()), PolicySource())
        loop = asyncio.get_running_loop()

        def report() -> None:
            told.append(len(route.intervals()))

        settings = Settings((route_settings,))
        route = Route(
            route_settings,
            settings,
            Single(route_settings.upstream),
            TRANSPARENT,
            loop,
            1,
            PlanCompiler(TRANSPARENT).find,
            lambda _: loop.create_future(),
            False,
            None,
            report,
            Admission(0),
            counts_in(memoryview(bytearray(16)), 1, 0),
        )
        await route.start()
        route.close()

    asyncio.run(main())
    assert told[:1] == [1]
