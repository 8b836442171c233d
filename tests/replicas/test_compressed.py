"""Replicas answer reads of compressed values, and clients read what they would read without the rules.

Proves: histories of one client are answered as by one server alone, in RESP2 and RESP3; replicas have answered reads of
each form, pipelines, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.compression.histories import REFUSED, Argv, History, json_of
from tests.conftest import kind_named, rest_is_long, seeds
from tests.engines import Engine
from tests.guardrails.test_compression import same
from tests.keyrail_process import DIRECT, Keyrail
from tests.replicas.lab import Lab
from tests.replicas.seen import serving
from tests.resp import Wire, decode, eventually
from tests.resp import pack as request

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay knows no replicas")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  docs: {compress: {keys: ["doc:1", "doc:h1"], above: 64B}}
  others: {compress: {keys: ["doc:2", "doc:3", "doc:h2"], above: 64B, codec: lz4}}
  shared: {replica_reads: {keys: ["*"], max_lag: 1s}}
"""
VALUES = {number: json_of(random.Random(number), 3000) for number in range(4)}


@pytest.fixture(scope="module", params=rest_is_long("valkey-9.1", "redis-7.0"))
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with Lab(kind_named(str(request.param))) as started:
        yield started


@pytest.fixture(scope="module")
def keyrail(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyrail]:
    file = tmp_path_factory.mktemp("policy") / "policy.yaml"
    file.write_text(POLICY, encoding="utf-8")
    replicas = ",".join(f"127.0.0.1:{each.port}" for each in lab.replicas)
    running = Keyrail(f"{lab.primary.url}?replicas={replicas}", policy=file)
    yield running
    running.close()


@pytest.fixture(scope="module")
def reference(lab: Lab) -> Iterator[Engine]:
    started = Engine(lab.primary.kind)
    yield started
    started.close()


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
@pytest.mark.parametrize("seed", seeds(2))
def test_histories_are_those_of_one_server(
    reference: Engine, lab: Lab, keyrail: Keyrail, protocol: int, seed: int
) -> None:
    history = History(seed)
    for engine in (reference, lab.primary):
        engine.do("FLUSHALL")
    eventually(lambda: serving(keyrail) == 2)
    with keyrail.wire(protocol) as wire, reference.wire(protocol) as direct:
        for argv in history.commands(600):
            if argv[0].decode() not in REFUSED | {"SORT"}:
                assert same(argv, wire.ask(*argv), direct.ask(*argv)), argv


def filled(lab: Lab, wire: Wire) -> list[tuple[Argv, object]]:
    """Reads, and what they answer."""
    one, two, three, four = VALUES.values()
    lab.primary.do("FLUSHALL")
    wire.ask("MSET", "doc:1", one, "doc:2", two, "plain:1", three)
    wire.ask("HSET", "doc:h1", "f", four)
    return [
        ([b"GET", b"doc:1"], one),
        ([b"MGET", b"doc:2", b"plain:1", b"doc:1", b"none"], [two, three, one, None]),
        ([b"GET", b"doc:3"], None),
        ([b"HGET", b"doc:h1", b"f"], four),
        ([b"HMGET", b"doc:h1", b"f", b"g"], [four, None]),
        ([b"HVALS", b"doc:h1"], [four]),
        ([b"GET", b"plain:1"], three),
        ([b"STRLEN", b"doc:1"], len(one)),
    ]


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
def test_replicas_answer_each_read(lab: Lab, keyrail: Keyrail, protocol: int, pipelined: bool) -> None:
    with keyrail.wire(protocol) as wire:
        reads = filled(lab, wire)
        eventually(lab.is_linked)
        names = [("get", 4), ("mget", 1), ("hget", 1), ("hmget", 1), ("hvals", 1)]

        def run() -> dict[str, int]:
            return {name: sum(each.calls(name) for each in lab.replicas) for name, _ in names}

        def all_were_moved() -> bool:
            before = run()
            if pipelined:
                wire.send(b"".join(request(*argv) for argv, _ in reads))
                assert [decode(frame) for frame in wire.frames(len(reads))] == [told for _, told in reads]
            else:
                for argv, told in reads:
                    assert wire.value(*argv) == told
            after = run()
            return all(after[name] > before[name] for name, _ in names)

        eventually(all_were_moved)
