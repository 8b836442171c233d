"""No reply ever reaches another client, and none is lost, doubled or out of order, whatever else happens.

Proves: hundreds of clients on a few shared upstreams get exactly their own tokens, while others pipeline, block,
subscribe, run transactions, leave in the middle of commands and send garbage, and while upstream connections are
killed. Several workers do not change that. And the hunt can fail: it catches a relay that swaps, drops, doubles or
delays one reply in some thousands every time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broken_program import Change, broken
from tests.conftest import Fleet, rest_is_long
from tests.engines import Engine
from tests.hotpath.test_upstream_pipeline_can_fail import BREAKS
from tests.keyrail_process import DIRECT, Keyrail, package_folder, packaged_policy
from tests.mixup.faulty import FAULTS, faulty_relay
from tests.mixup.logged_in import Expected, create_users, logged_in_under
from tests.mixup.roles import CHECKING, TROUBLE, denied, killer, leaver, named, vandal
from tests.mixup.swarm import Findings, Swarm
from tests.resp import Address

ENGINE = "valkey-9.1"
SECONDS = 1.5
"""How long a swarm goes on at least, which is many times what the faults below take to be found."""

SHORT = 5.0
"""The patience, in seconds, where a fault is to be found: there it can only be found too soon."""


def hunt(address: Address, upstream: Address, *, kill: bool, seed: int = 1) -> Findings:
    roles = [*CHECKING, *TROUBLE, *([(killer, 1)] if kill else [])]
    shares = {role.__name__: 3 * count for role, count in CHECKING} | ({"killer": 4} if kill else {})
    swarm = Swarm(address, upstream, seed)
    return clean(swarm, asyncio.run(swarm.run(roles, SECONDS, shares)))


def clean(swarm: Swarm, findings: Findings) -> Findings:
    if not findings.clean:
        pytest.fail("\n".join([*findings.wrong[:10], *findings.stuck[:10]]), pytrace=False)
    assert swarm.served, f"somebody hardly got through a turn: {findings.replies}"
    return findings


def test_everybody_hears_their_own(fleet: Fleet, engine_name: str, pooling: bool) -> None:
    """Nobody's connection is closed here without having asked for it."""
    engine = fleet.engine(engine_name)
    keyrail = fleet.keyrail(engine_name, pooling=pooling)
    findings = hunt(keyrail.address, engine.address, kill=False)
    causes = [] if DIRECT else re.findall(r"keyrail_client_closes_total.*", keyrail.http("/metrics")[1])
    assert set(findings.closed) <= {"vandal", "leaver"}, f"{findings.closed}, {causes}"
    if not DIRECT:
        assert keyrail.metric("keyrail_out_of_step_total") == 0


def test_while_upstreams_die(new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]) -> None:
    engine = new_engine(ENGINE)
    keyrail = new_keyrail(engine.url)
    hunt(keyrail.address, engine.address, kill=True, seed=2)
    if not DIRECT:
        assert keyrail.metric("keyrail_out_of_step_total") == 0


@pytest.mark.skipif(DIRECT, reason="a relay has no policy")
def test_under_a_policy(new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]) -> None:
    """Refusals, rewritten commands and edited replies between those of others."""
    engine = new_engine(ENGINE)
    keyrail = new_keyrail(engine.url, policy=packaged_policy("tour.yaml"))
    swarm = Swarm(keyrail.address, engine.address, seed=6)
    roles = [(denied, 40), (named, 60), (leaver, 15), (vandal, 5), (killer, 1)]
    clean(swarm, asyncio.run(swarm.run(roles, SECONDS, {"denied": 500, "named": 500, "killer": 3})))
    assert keyrail.metric("keyrail_out_of_step_total") == 0


_LOGGED_IN = {
    "observe": Expected(refuses=False),
    "tour": Expected(refuses=True, expire=("string", "once")),
    "strict": Expected(refuses=True, expire=("string", "once", "hash", "list", "set", "zset", "counter")),
}


@pytest.mark.skipif(DIRECT, reason="a relay has no policy")
@pytest.mark.parametrize("policy", rest_is_long(*reversed(_LOGGED_IN)))
def test_clients_of_their_own_users(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], tmp_path: Path, policy: str
) -> None:
    """Keyrail's own questions, as many as a policy can cause, stay out of the transactions of clients that log in."""
    engine = new_engine(ENGINE)
    create_users(engine)
    file = tmp_path / "policy.yaml"
    text = packaged_policy(f"{policy}.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("sample: 1%", "sample: 50%"), encoding="utf-8")
    keyrail = new_keyrail(engine.url, policy=file)
    swarm = Swarm(keyrail.address, engine.address, seed=7)
    roles = [(logged_in_under(_LOGGED_IN[policy]), 12), (leaver, 5)]
    clean(swarm, asyncio.run(swarm.run(roles, SECONDS, {"logged_in": 500})))
    assert keyrail.metric("keyrail_out_of_step_total") == 0


def test_several_workers(new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]) -> None:
    engine = new_engine("redis-7.0")
    keyrail = new_keyrail(engine.url, workers=2)
    hunt(keyrail.address, engine.address, kill=True, seed=3)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_hunt_can_fail(fleet: Fleet, fault: str) -> None:
    """A relay with one fault, and little of it: the swarm must see it within seconds."""
    engine = fleet.engine(ENGINE)

    async def one_fault() -> Findings:
        async with faulty_relay(engine.address, fault) as address:
            swarm = Swarm(address, engine.address, seed=4, patience=SHORT)
            return await swarm.run([(role, 3) for role, _ in CHECKING], 20.0)

    assert not asyncio.run(one_fault()).clean


BROKEN = (
    "a client takes its neighbour's replies",
    "all that was read goes to the first",
    "one reply of several is paid",
    "a local answer overtakes",
)
"""Breaks of the upstream pipeline that give one client another's replies. The upstream pipeline's own tests try all its
breaks."""


@pytest.mark.skipif(DIRECT, reason="there is no reply queue in a relay")
@pytest.mark.source
@pytest.mark.parametrize("name", rest_is_long(*BROKEN))
def test_a_broken_pipeline_is_caught(fleet: Fleet, tmp_path: Path, name: str) -> None:
    """Keyrail itself with one line of its upstream pipeline changed, as plain Python: the swarm hears it at once."""
    right, wrong = BREAKS[name]
    parts = [f"hotpath/upstream/{part}.py" for part in ("in_flight", "outgoing", "reply_actions")]
    (module,) = (part for part in parts if right in (package_folder() / part).read_text())
    engine = fleet.engine(ENGINE)
    package = broken(tmp_path, Change(module, right, wrong))
    keyrail = Keyrail(engine.url, policy=packaged_policy("tour.yaml"), package=package)
    try:
        swarm = Swarm(keyrail.address, engine.address, seed=5, patience=SHORT)
        assert not asyncio.run(swarm.run([(denied, 20), (named, 20)], 10.0)).clean
    finally:
        keyrail.kill()
        keyrail.close()
