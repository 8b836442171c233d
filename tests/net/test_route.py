"""One route in one worker: the figures of a second are there when it is over, whatever Redis does."""

from __future__ import annotations

import asyncio

from proxy.net.config.address import UpstreamAddress
from proxy.net.topology.topology import Single
from tests.engines import free_port
from tests.net.routes import new_route


def test_who_tells_of_a_second_hears_when_it_is_over() -> None:
    told: list[int] = []

    async def main() -> None:
        upstream = UpstreamAddress(port=free_port())

        def report() -> None:
            told.append(len(route.intervals()))

        route = new_route(upstream, Single(upstream), on_second=report, traces=50)
        await route.start()
        route.close()

    asyncio.run(main())
    assert told[:1] == [1]
