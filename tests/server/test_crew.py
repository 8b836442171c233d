"""The crew's start ends, one way or the other."""

import asyncio

import pytest

from proxy.net.address import UpstreamAddress
from proxy.net.settings import PolicySource, RouteSettings, Settings
from proxy.server.crew import Crew
from proxy.server.listeners import Listeners
from proxy.server.violations import Violations
from tests.resp import PATIENCE_SECONDS


def test_a_mistake_of_the_program_at_the_start_is_no_endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def live(crew: Crew, number: int) -> str:
        raise ZeroDivisionError(f"worker {number}")

    async def main() -> None:
        settings = Settings((RouteSettings("r", (), UpstreamAddress(), PolicySource()),))
        await asyncio.wait_for(Crew(settings, Listeners(), (), Violations(0, None)).start(), PATIENCE_SECONDS)

    monkeypatch.setattr(Crew, "_live", live)
    with pytest.raises(ZeroDivisionError, match="worker 0"):
        asyncio.run(main())
