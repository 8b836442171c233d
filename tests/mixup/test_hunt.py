"""No reply ever reaches another client, and none is lost, doubled or out of order, whatever else goes on.

Proves: hundreds of clients on a few shared upstreams hear exactly their own tokens, while others pipeline, block,
subscribe, run transactions, leave in the middle of commands and send garbage, and while upstream connections are
killed; several workers do not change that. And that the hunt can fail: a relay that swaps, drops, doubles or delays
one reply in some thousands is caught every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.mixup.faulty import FAULTS, faulty_relay
from tests.mixup.roles import CHECKING, TROUBLE, killer
from tests.mixup.swarm import Findings, Swarm
from tests.resp import Address

ENGINE = "valkey-9.1"


def hunt(address: Address, upstream: Address, seconds: float, *, kill: bool, seed: int = 1) -> Findings:
    roles = [*CHECKING, *TROUBLE, *([(killer, 1)] if kill else [])]
    return asyncio.run(Swarm(address, upstream, seed).run(roles, seconds))


def clean(findings: Findings) -> None:
    if not findings.clean:
        pytest.fail("\n".join([*findings.wrong[:10], *findings.stuck[:10]]), pytrace=False)
    assert sum(findings.replies.values()) > 2000, "the swarm hardly did anything"
    for role, _ in CHECKING:
        assert findings.replies[role.__name__] > 0, f"{role.__name__} never got through a turn"


def test_everybody_hears_their_own(fleet: Fleet, engine_name: str, pooling: bool) -> None:
    """Nobody's connection is closed here without having asked for it."""
    engine = fleet.engine(engine_name)
    keyrail = fleet.keyrail(engine_name, pooling=pooling)
    findings = hunt(keyrail.address, engine.address, 4.0, kill=False)
    clean(findings)
    assert set(findings.closed) <= {"vandal", "leaver"}, findings.closed
    if not DIRECT:
        assert keyrail.metric("keyrail_out_of_step_total") == 0


def test_while_upstreams_die(new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]) -> None:
    engine = new_engine(ENGINE)
    keyrail = new_keyrail(engine.url)
    findings = hunt(keyrail.address, engine.address, 8.0, kill=True, seed=2)
    clean(findings)
    assert findings.replies["killer"] > 3
    if not DIRECT:
        assert keyrail.metric("keyrail_out_of_step_total") == 0


def test_several_workers(new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]) -> None:
    engine = new_engine("redis-7.0")
    keyrail = new_keyrail(engine.url, workers=2)
    clean(hunt(keyrail.address, engine.address, 5.0, kill=True, seed=3))


@pytest.mark.parametrize("fault", FAULTS)
def test_the_hunt_can_fail(fleet: Fleet, fault: str) -> None:
    """A relay with one fault, and little of it: the swarm must see it within seconds."""
    engine = fleet.engine(ENGINE)

    async def one_fault() -> Findings:
        async with faulty_relay(engine.address, fault) as address:
            return await Swarm(address, engine.address, seed=4).run([(role, 3) for role, _ in CHECKING], 20.0)

    assert not asyncio.run(one_fault()).clean
