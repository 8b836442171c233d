"""How often the servers behind a route are looked at."""

from __future__ import annotations

import asyncio

import pytest

from proxy.net.watch import Looking


@pytest.mark.parametrize("problem", ["", "it is down"])
def test_reasons_to_look_do_not_hasten_the_looks_while_there_is_a_problem(
    problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def main() -> None:
        wanted = asyncio.Event()
        looking = Looking(
            "r", asyncio.get_running_loop(), wanted, print, log_as="", well="all is well", unsettled_seconds=60.0
        )

        async def look() -> None:
            looking.report({problem} - {""})
            wanted.set()

        async def has_news() -> bool:
            return False

        task = asyncio.ensure_future(looking.go_on(look, has_news))
        while len(pauses) < 5:
            await sleep(0)
        task.cancel()

    monkeypatch.setattr(asyncio, "sleep", pause)
    asyncio.run(main())
    assert all(50.0 < each <= 60.0 if problem else each <= 0.02 for each in pauses)
