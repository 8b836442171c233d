"""As `failures/test_write_pauses.py`, with a cluster upstream: a pause of all nodes, and one of a single node."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.nodes import RealCluster
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

KEYS = ["a", "b", "c"]
"""One of each node."""


def are_waiting(wires: list[Wire], expected: int) -> bool:
    return sum(wire.silent(0.0) for wire in wires) == expected


def test_reads_go_on_at_all_nodes(cluster: RealCluster, new_keyrail: Callable[..., Keyrail], tmp_path: Path) -> None:
    policy = tmp_path / "split.yaml"
    policy.write_text("keyrail: 1\ncross_slot: split\nrules: {}\n")
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", policy=policy, workers=2)
    with keyrail.wire() as script, keyrail.wire() as reader:
        writers = [keyrail.wire() for _ in (*KEYS, "all")]
        for wire in (reader, *writers):
            assert wire.ask("MSET", *(word for key in KEYS for word in (key, "0"))) == b"+OK\r\n"
        for all_nodes in (True, False):
            if all_nodes:
                assert script.ask("CLIENT", "PAUSE", "600000", "WRITE") == b"+OK\r\n"
            else:
                assert script.ask("KEYRAIL", "NODE", "n1", "CLIENT", "PAUSE", "600000", "WRITE") == b"+OK\r\n"
            for writer, key in zip(writers, KEYS, strict=False):
                writer.send(pack("INCR", key) + pack("GET", key))
            writers[-1].send(pack("MSET", *(word for key in KEYS for word in ("x" + key, "1"))))
            for read in (["MGET", *KEYS], ["PING"], ["DBSIZE"], *(["GET", key] for key in KEYS)) * 3:
                assert reader.ask(*read)[:1] not in (b"-", b"")
            eventually(partial(are_waiting, writers, 4 if all_nodes else 2))
            assert script.ask("CLIENT", "UNPAUSE") == b"+OK\r\n"
            for writer in writers[:-1]:
                count, value = writer.frames(2)
                assert value == b"$1\r\n%b\r\n" % count[1:2]
            assert writers[-1].frame() == b"+OK\r\n"
        for wire in writers:
            wire.close()
