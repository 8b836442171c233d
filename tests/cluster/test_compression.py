"""Values of a cluster are compressed and read plain, also over several slots, and while a slot is on its way to another
node."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.commands.slots import slot_of
from proxy.compression.frames import STRING, unpack
from tests.cluster.nodes import RealCluster
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no rules")

POLICY = """
keyrail: 1
cross_slot: split
defaults: {mode: enforce}
rules:
  docs: {compress: {keys: ["doc:*"], above: 64BMORE}}
  usual: {lifetime: {default: 5m, keys: ["doc:*"]}}
"""
VALUES = {f"doc:{number}".encode(): json_of(random.Random(number), 30 + 400 * number) for number in range(20)}


KNOWN = {json_dictionary().name: json_dictionary()}


@pytest.fixture(scope="module", params=["", ", dictionary: doc.zdict"], ids=["zstd", "dictionary"])
def keyrail(
    cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Keyrail]:
    file = tmp_path_factory.mktemp("compression") / "policy.yaml"
    file.write_text(POLICY.replace("MORE", request.param), encoding="utf-8")
    (file.parent / "doc.zdict").write_bytes(json_dictionary().content)
    started = Keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", policy=file)
    eventually(lambda: started.http("/readyz")[0] == 200)
    yield started
    started.close()


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def wire(keyrail: Keyrail, cluster: RealCluster, request: pytest.FixtureRequest) -> Iterator[Wire]:
    for node in cluster.primaries():
        node.do("FLUSHALL")
    with keyrail.wire(request.param) as wire:
        yield wire


def test_values_of_several_slots(cluster: RealCluster, wire: Wire) -> None:
    assert wire.ask("MSET", *(word for pair in VALUES.items() for word in pair), "other", "x" * 200) == b"+OK\r\n"
    saved = 0
    for key, value in VALUES.items():
        stored = cluster.owner(slot_of(key)).do("GET", key)
        assert isinstance(stored, bytes)
        assert unpack(stored, STRING, KNOWN) == value
        saved += len(value) - len(stored)
        assert wire.value("GET", key) == value
        assert wire.value("STRLEN", key) == len(value)
        assert 240 < int(str(wire.value("TTL", key))) <= 300
    assert saved > sum(map(len, VALUES.values())) / 2
    found = wire.value("MGET", "missing", *VALUES, "other", *reversed(VALUES))
    assert found == [None, *VALUES.values(), b"x" * 200, *reversed(VALUES.values())]
    assert wire.ask("EVAL", "return 1", "1", "doc:1").startswith(b"-DENIED keyrail/docs: ")


def test_values_of_a_transaction(wire: Wire) -> None:
    key, value = b"doc:19", VALUES[b"doc:19"]
    wire.send(pack("MULTI") + pack("SET", key, value) + pack("GETRANGE", key, 1, 3) + pack("GET", key) + pack("EXEC"))
    *_, told = wire.frames(5)
    assert told == b"*3\r\n+OK\r\n$3\r\n%b\r\n$%d\r\n%b\r\n" % (value[1:4], len(value), value)


def test_values_of_a_slot_that_moves(cluster: RealCluster, wire: Wire) -> None:
    key, value = b"doc:19", VALUES[b"doc:19"]
    slot = slot_of(key)
    source = cluster.owner(slot)
    target = next(node for node in cluster.primaries() if node is not source)
    wire.ask("SET", key, value)
    cluster.open_slot(slot, source, target)
    assert wire.value("GET", key) == value
    cluster.move_keys(slot, source, target)
    assert wire.value("GET", key) == value
    assert wire.ask("SET", key, value + value) == b"+OK\r\n"
    assert wire.value("GETRANGE", key, 0, -1) == value + value
    cluster.close_slot(slot, target)
    assert wire.value("GET", key) == value + value
    stored = target.do("GET", key)
    assert isinstance(stored, bytes)
    assert unpack(stored, STRING, KNOWN) == value + value != stored


def test_a_dictionary_of_the_values_of_all_nodes(
    cluster: RealCluster, wire: Wire, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    r, file = random.Random(1), tmp_path / "policy.yaml"
    for number in range(150):
        assert wire.ask("SET", f"doc:{number}", json_of(r, 600)) == b"+OK\r\n"
    file.write_text(POLICY.replace("MORE", ", also_read: doc.zdict"), encoding="utf-8")
    (tmp_path / "doc.zdict").write_bytes(json_dictionary().content)
    url = f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}"
    words = ["train-dictionary", "--upstream", url, "--policy", str(file), "--out", str(tmp_path / "new.zdict")]
    assert main([*words, "--share", "100%"]) == 0
    assert "trained on 120 values of doc:* above 64 bytes\nOf 30 others, " in capsys.readouterr().out
