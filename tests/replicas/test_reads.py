"""Reads from replicas: who answers, and that no client sees what it must not, whatever happens to replicas.

Proves: reads of a rule's keys are spread over the replicas and nothing else is; no client goes back, each sees its own
writes, nothing is older than the bound and a second; replicas that lag, hang, load, lose their primary or die leave,
and clients stay connected.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.black_hole import BlackHole
from tests.conftest import kind_named, rest_is_long
from tests.keyrail_process import DIRECT, Keyrail
from tests.replicas.actors import Stage
from tests.replicas.lab import Lab
from tests.replicas.seen import moved, nodes_of, serving
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay knows no replicas")

MAX_LAG = 1.0
POLICY = """
keyrail: 1
rules:
  shared: {replica_reads: {keys: ["a:*", "b:*", "c:*"], max_lag: 1s}, mode: MODE}
"""

KEYS = ("a", "b", "c", "outside")
"""What clients write and read: the last one is in no rule, so that the primary answers."""

NewKeyrail = Callable[..., Keyrail]


@pytest.fixture(scope="module", params=rest_is_long("redis-7.0", "valkey-9.1"))
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with Lab(kind_named(str(request.param))) as started:
        yield started


@pytest.fixture(scope="module")
def keyrail(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyrail]:
    running = Keyrail(url(lab), policy=policy(tmp_path_factory.mktemp("policy"), "enforce"))
    yield running
    running.close()


def url(lab: Lab) -> str:
    return f"{lab.primary.url}?replicas={','.join(f'127.0.0.1:{each.port}' for each in lab.replicas)}"


def policy(folder: Path, mode: str) -> Path:
    (folder / "policy.yaml").write_text(POLICY.replace("MODE", mode))
    return folder / "policy.yaml"


def reads_of(lab: Lab, act: Callable[[], None]) -> list[int]:
    """How many GETs each server has run meanwhile, the primary first."""
    before = lab.reads()
    act()
    return [now - then for then, now in zip(before, lab.reads(), strict=True)]


def test_reads_of_the_keys_are_spread_and_nothing_else_is(lab: Lab, keyrail: Keyrail) -> None:
    lab.primary.do("MSET", "a:1", "v", "x:1", "w")
    eventually(lab.is_linked)
    eventually(lambda: serving(keyrail) == 2)

    def read(key: str, expected: bytes) -> Callable[[], None]:
        def act() -> None:
            for _ in range(20):
                with keyrail.wire() as wire:
                    for _ in range(10):
                        assert wire.ask("GET", key) == expected

        return act

    def is_spread() -> bool:
        # On a machine that stands still for a second, nobody knows how old the data of replicas is.
        primary, *replicas = reads_of(lab, read("a:1", b"$1\r\nv\r\n"))
        assert primary + sum(replicas) == 200
        return primary == 0 and min(replicas) > 0

    eventually(is_spread)
    assert reads_of(lab, read("x:1", b"$1\r\nw\r\n")) == [200, 0, 0]

    def shares() -> dict[str, float]:
        told = json.loads(keyrail.http("/hotkeys")[1])
        return {row["key"]: row["replica_share"] for row in told["keys"]}

    eventually(lambda: shares().get("a:1", 0.0) > 0.5 and shares().get("x:1") == 0.0)


def test_state_keeps_reads_with_the_primary(lab: Lab, keyrail: Keyrail) -> None:
    eventually(lambda: serving(keyrail) == 2)

    def act() -> None:
        with keyrail.wire() as wire:
            assert wire.ask("WATCH", "a:1") == b"+OK\r\n"
            wire.ask("GET", "a:1")
            assert wire.ask("MULTI") == b"+OK\r\n"
            assert wire.ask("GET", "a:1") == b"+QUEUED\r\n"
            wire.ask("EXEC")
        with keyrail.wire() as wire:
            wire.say("MULTI")
            wire.say("GET", "a:1")
            wire.say("EXEC")
            assert wire.ask("PING").startswith(b"+")

    assert reads_of(lab, act)[1:] == [0, 0]


@pytest.mark.parametrize("mode", ["audit", "off"])
def test_what_is_not_enforced_reads_from_the_primary(
    lab: Lab, new_keyrail: NewKeyrail, tmp_path: Path, mode: str
) -> None:
    keyrail = new_keyrail(url(lab), policy=policy(tmp_path, mode))

    def act() -> None:
        with keyrail.wire() as wire:
            for _ in range(30):
                wire.ask("GET", "a:1")
            for _ in range(10):
                wire.ask("GET", "x:1")

    assert reads_of(lab, act) == [40, 0, 0]
    (rule,) = json.loads(keyrail.http("/rules")[1])["routes"][0]["rules"]
    if mode == "audit":
        eventually(lambda: found(keyrail) == ({"audit moved": 30}, 40))
    else:
        assert rule["hits"] == {}


def found(keyrail: Keyrail) -> tuple[dict[str, int], int]:
    """What the rule would move, out of how many reads."""
    (rule,) = json.loads(keyrail.http("/rules")[1])["routes"][0]["rules"]
    return rule["hits"], rule["reads"]


def test_read_from_replicas_needs_no_policy(lab: Lab, new_keyrail: NewKeyrail) -> None:
    keyrail = new_keyrail(url(lab), extra=("--read-from", "replicas"))
    eventually(lambda: serving(keyrail) == 2)

    def act() -> None:
        with keyrail.wire() as wire:
            for _ in range(30):
                wire.ask("GET", "x:1")

    eventually(lambda: reads_of(lab, act)[0] == 0)


@pytest.mark.parametrize("own_policy", [False, True], ids=["--read-from", "policy"])
def test_it_is_told_where_nobody_can_read_from_replicas(
    lab: Lab, new_keyrail: NewKeyrail, tmp_path: Path, *, own_policy: bool
) -> None:
    moved = {"policy": policy(tmp_path, "enforce")} if own_policy else {"extra": ("--read-from", "replicas")}
    keyrail = new_keyrail(url(lab), pooling=False, **moved)
    told = "reads from replicas are off, as with --pooling off each client has a connection of its own"
    eventually(lambda: f"route default: {told}" in keyrail.stderr)
    assert f'keyrail_feature_off{{feature="{told}",route="default"}} 1.0' in keyrail.http("/metrics")[1]

    def act() -> None:
        ask(keyrail, "a:1")

    assert reads_of(lab, act) == [1, 0, 0]
    assert found(keyrail)[0] == {}


NEARBY = """
keyrail: 1
zones: {here: [127.0.0.2], there: [127.0.0.1]}
rules:
  nearby: {replica_reads: {keys: ["a:*"], max_lag: 1s, prefer: [same-zone]}, mode: enforce}
"""


def test_replicas_of_the_own_zone_come_first(lab: Lab, new_keyrail: NewKeyrail, tmp_path: Path) -> None:
    lab.mend()
    far, near = lab.replicas
    near.do("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2")
    (tmp_path / "policy.yaml").write_text(NEARBY)
    upstream = f"{lab.primary.url}?replicas=127.0.0.1:{far.port},127.0.0.2:{near.port}"
    keyrail = new_keyrail(upstream, policy=tmp_path / "policy.yaml", extra=("--zone", "here"))
    eventually(lambda: serving(keyrail) == 2)

    def act() -> None:
        for _ in range(20):
            ask(keyrail, "a:1")

    eventually(lambda: reads_of(lab, act) == [0, 0, 20])
    lab.streams[1].hold()
    lab.primary.do("SET", "x", "v")
    eventually(lambda: reads_of(lab, act) == [0, 20, 0])
    lab.mend()


def test_a_library_that_tells_its_name_reads_from_replicas_at_once(lab: Lab, keyrail: Keyrail) -> None:
    eventually(lambda: serving(keyrail) == 2)

    def act() -> None:
        for _ in range(10):
            with redis.Redis(port=keyrail.address.port, protocol=2) as client:
                client.get("a:1")

    eventually(lambda: reads_of(lab, act)[0] == 0)


def test_read_only_scripts_run_on_replicas(lab: Lab, new_keyrail: NewKeyrail, tmp_path: Path) -> None:
    lab.primary.do("SET", "a:1", "v")
    get = "callback=function(keys) return redis.call('GET', keys[1]) end"
    library = f"#!lua name=l\nredis.register_function{{function_name='f', {get}, flags={{'no-writes'}}}}"
    lab.primary.do("FUNCTION", "LOAD", "REPLACE", library)
    eventually(lab.is_linked)
    keyrail = new_keyrail(url(lab), policy=policy(tmp_path, "enforce"))
    eventually(lambda: serving(keyrail) == 2)
    text = "return redis.call('GET', KEYS[1])"
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    commands = (("EVAL_RO", text), ("EVALSHA_RO", sha), ("FCALL_RO", "f"))

    def calls() -> list[int]:
        return [sum(server.calls(name) for server in lab.replicas) for name, _ in commands]

    with keyrail.wire() as wire:
        before = calls()

        def all_have_run() -> bool:
            # The first one runs on the primary, which has to know it.
            for words in commands:
                assert wire.ask(*words, 1, "a:1") == b"$1\r\nv\r\n"
            return all(now > then for then, now in zip(before, calls(), strict=True))

        eventually(all_have_run)
        assert wire.ask("FCALL_RO", "none", 1, "a:1").startswith(b"-ERR Function not found")
    assert keyrail.metric("keyrail_out_of_step_total") == 0


async def is_(condition: Callable[[], bool]) -> None:
    """Wait for what a server tells."""
    await asyncio.to_thread(eventually, condition)


async def nothing(lab: Lab, keyrail: Keyrail, stage: Stage) -> None:
    await stage.until_reads(2000)


async def a_stream_is_held(lab: Lab, keyrail: Keyrail, stage: Stage) -> None:
    lab.streams[0].hold()
    await is_(lambda: serving(keyrail) == 1)
    await stage.until_reads(500)
    lab.streams[1].hold()
    await is_(lambda: serving(keyrail) == 0)
    await stage.until_reads(500)


async def a_stream_is_slow(lab: Lab, keyrail: Keyrail, stage: Stage) -> None:
    lab.streams[0].delay(0.3)
    await stage.until_reads(2000)
    lab.streams[1].delay(3.0)
    await is_(lambda: serving(keyrail) <= 1)
    await stage.until_reads(500)


async def a_replica_hangs(lab: Lab, keyrail: Keyrail, stage: Stage) -> None:
    lab.replicas[0].freeze()
    await is_(lambda: serving(keyrail) == 1)
    await stage.until_reads(500)


async def the_link_is_cut(lab: Lab, keyrail: Keyrail, stage: Stage) -> None:
    await asyncio.to_thread(lab.replicas[1].do, "CONFIG", "SET", "replica-serve-stale-data", "no")
    lab.streams[1].cut()
    await is_(lambda: serving(keyrail) == 1)
    await stage.until_reads(500)


async def a_replica_dies_and_comes_back(lab: Lab, keyrail: Keyrail, stage: Stage) -> None:
    lab.replicas[0].kill()
    await is_(lambda: serving(keyrail) == 1)
    await stage.until_reads(300)
    await asyncio.to_thread(lab.replicas[0].start)
    await asyncio.to_thread(lab.replicas[0].do, "REPLICAOF", "127.0.0.1", lab.streams[0].port)
    await is_(lambda: serving(keyrail) == 2)
    await stage.until_reads(500)


async def a_replica_loads(lab: Lab, keyrail: Keyrail, stage: Stage) -> None:
    # It has another stream, gets all data anew, and loads it slowly.
    await asyncio.to_thread(lab.primary.do, "MSET", *itertools.chain(*((f"x:{number}", "v") for number in range(3000))))
    await asyncio.to_thread(lab.load_anew, 0)
    await is_(lambda: serving(keyrail) == 1)
    await stage.until_reads(500)
    with lab.replicas[0].wire() as wire:
        assert wire.ask("GET", "x:1").startswith(b"-LOADING")
    lab.load_at_once()
    await is_(lambda: serving(keyrail) == 2)
    await stage.until_reads(500)


async def the_primary_hangs(lab: Lab, keyrail: Keyrail, stage: Stage) -> None:
    # Replicas look connected to it all the time. Only when it wrote last says how old they may be.
    lab.primary.freeze()
    await is_(lambda: not any(node["serves"] for node in nodes_of(keyrail)))
    assert {each.info("replication")["master_link_status"] for each in lab.replicas} == {"up"}
    lab.primary.thaw()
    await is_(lambda: serving(keyrail) == 2)
    await stage.until_reads(500)


Event = Callable[[Lab, Keyrail, Stage], Awaitable[None]]
EVENTS: list[Event] = [
    nothing,
    a_stream_is_held,
    a_stream_is_slow,
    a_replica_hangs,
    the_link_is_cut,
    a_replica_dies_and_comes_back,
    a_replica_loads,
    the_primary_hangs,
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_nobody_sees_what_it_must_not(lab: Lab, keyrail: Keyrail, event: Event) -> None:
    lab.mend()
    lab.primary.do("FLUSHALL")
    eventually(lambda: serving(keyrail) == 2)
    stage = Stage(keyrail.address.port, keys=KEYS)
    before = moved(keyrail)
    try:
        asyncio.run(stage.run(12, lambda: event(lab, keyrail, stage)))
    finally:
        lab.mend()
    assert stage.history.problems(MAX_LAG + 1.0) == []
    assert (stage.closed, stage.errors) == (0, [])
    eventually(lambda: moved(keyrail) > before)
    assert keyrail.metric("keyrail_out_of_step_total") == 0
    assert "Traceback" not in keyrail.stderr


# Connections to a replica


def test_a_client_reads_from_no_other_server_than_the_one_whose_lag_is_known(
    lab: Lab, new_keyrail: NewKeyrail, tmp_path: Path
) -> None:
    # A balancer leads the next connection to a replica that gets nothing from its primary.
    lab.mend()
    lab.primary.do("FLUSHALL")
    eventually(lab.is_linked)
    with BlackHole(*(each.port for each in lab.replicas)) as balancer:
        keyrail = new_keyrail(
            f"{lab.primary.url}?replicas=127.0.0.1:{balancer.port}", policy=policy(tmp_path, "enforce")
        )
        stage = Stage(keyrail.address.port)
        lab.streams[1].hold()

        async def act() -> None:
            await stage.until_reads(200)
            await is_(lambda: serving(keyrail) == 1)
            await stage.until_reads(500)

        try:
            asyncio.run(stage.run(8, act))
        finally:
            lab.mend()
    assert stage.history.problems(MAX_LAG + 1.0) == []
    assert moved(keyrail) > 0


def test_a_connection_that_has_died_unseen_is_replaced_although_its_replica_answers(
    lab: Lab, new_keyrail: NewKeyrail, tmp_path: Path
) -> None:
    lab.mend()
    lab.primary.do("SET", "a:1", "v")
    with BlackHole(lab.replicas[0].port) as hole:
        keyrail = new_keyrail(f"{lab.primary.url}?replicas=127.0.0.1:{hole.port}", policy=policy(tmp_path, "enforce"))
        eventually(lambda: serving(keyrail) == 1)
        eventually(lambda: first_replica_answers(lab, keyrail))
        hole.swallow_newest()
        for _ in range(20):
            assert ask(keyrail, "a:1") == b"$1\r\nv\r\n"
        eventually(lambda: first_replica_answers(lab, keyrail))
    assert keyrail.metric("keyrail_out_of_step_total") == 0


def ask(keyrail: Keyrail, key: str) -> bytes:
    with keyrail.wire() as wire:
        return wire.ask("GET", key)


def first_replica_answers(lab: Lab, keyrail: Keyrail) -> bool:
    """Whether it answers a client that asks once."""
    before = lab.replicas[0].calls("get")
    ask(keyrail, "a:1")
    return lab.replicas[0].calls("get") > before
