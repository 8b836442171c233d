"""A cluster with TLS whose nodes announce names: Keyrail finds them, and checks their certificates by these names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import kind_named
from tests.engines import Engine, free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.net.certificates import authority, issue
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Engine]]:
    """Two primaries, `localhost` by name; `ca.pem` is the authority of their certificate."""
    certificates = authority(tmp_path, "ca")
    certificate = issue(tmp_path, "node", certificates)
    options = {
        "tls-cert-file": str(certificate.certificate),
        "tls-key-file": str(certificate.key),
        "tls-ca-cert-file": str(certificates.certificate),
        "tls-auth-clients": "no",
        "tls-cluster": "yes",
        "cluster-enabled": "yes",
        "cluster-announce-hostname": "localhost",
        "cluster-preferred-endpoint-type": "hostname",
    }
    kind = kind_named("redis-7.0")
    started: list[Engine] = []
    try:
        for first, last in ((0, 8191), (8192, 16383)):
            started.append(Engine(kind, options | {"tls-port": str(free_port())}))
            started[-1].do("CLUSTER", "SET-CONFIG-EPOCH", len(started))
            started[-1].do("CLUSTER", "ADDSLOTSRANGE", first, last)
        met = int(started[1].options["tls-port"])
        started[0].do("CLUSTER", "MEET", "127.0.0.1", met, met + 10_000)
        yield started
    finally:
        for each in started:
            each.close()


def test_names_of_nodes_are_those_of_their_certificates(
    nodes: list[Engine], tmp_path: Path, new_keyrail: Callable[..., Keyrail]
) -> None:
    eventually(lambda: all("cluster_state:ok" in str(node.do("CLUSTER", "INFO")) for node in nodes))
    ports = [int(node.options["tls-port"]) for node in nodes]
    ca = next(tmp_path.glob("ca*.pem"))
    keyrail = new_keyrail(f"rediss+cluster://localhost:{ports[0]}?ssl_ca_certs={ca}")
    eventually(lambda: keyrail.http("/readyz")[1] == "ready\n")
    (listed,) = json.loads(keyrail.http("/nodes")[1])["routes"].values()
    assert [(node["address"], node["health"]) for node in listed] == [(f"localhost:{port}", "ok") for port in ports]
    with keyrail.wire() as wire:
        assert [wire.ask("SET", key, key) for key in "abcd"] == [b"+OK\r\n"] * 4
        assert wire.ask("DBSIZE") == b":4\r\n"
    assert all(node.do("DBSIZE") for node in nodes)
