"""Reads from the replicas of a cluster while the keys of a slot move to another node, before anybody has noticed.

Proves: no key is missing, on engines whose replicas do not know which slots are on their way (Redis) and on others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named, rest_is_long
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.replicas.seen import moved
from tests.resp import pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay knows no replicas")


@pytest.fixture(params=rest_is_long("redis-7.0", "valkey-9.1"))
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    started = RealCluster(kind_named(str(request.param)), primaries=2, replicas=2)
    yield started
    started.close()


def test_no_key_is_missing_while_its_slot_moves(cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> None:
    source, target = cluster.primaries()
    tag = next(f"{{{number}}}" for number in range(1000) if cluster.owner(slot_of(b"%d" % number)) is source)
    keys = [f"{tag}{number}" for number in range(300)]
    slot = slot_of(keys[0].encode())
    pipeline = b"".join(pack("GET", key) for key in keys) + pack("GET", f"{tag}none")
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{source.port}", extra=("--read-from", "replicas"))

    def move(there: Engine, back: Engine) -> None:
        cluster.open_slot(slot, there, back)
        for key in keys:
            cluster.move_keys(slot, there, back, [key.encode()])
        cluster.close_slot(slot, back)
        cluster.settle()

    with keyrail.wire() as wire, ThreadPoolExecutor(1) as pool:
        for key in keys:
            assert wire.ask("SET", key, "v") == b"+OK\r\n"
        for there, back in ((source, target), (target, source)):
            before = moved(keyrail)
            moving: Future[None] | None = None
            while moving is None or not moving.done():
                wire.send(pipeline)
                assert wire.frames(len(keys) + 1) == [b"$1\r\nv\r\n"] * len(keys) + [b"$-1\r\n"]
                if moving is None and moved(keyrail) > before:  # replicas answer
                    moving = pool.submit(move, there, back)
            moving.result()
    assert keyrail.metric("keyrail_out_of_step_total") == 0
