"""KEYRAIL NODE before a real cluster: each node answers for itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.cluster.nodes import RealCluster
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no KEYRAIL NODE")

NAMES = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def keyrail(cluster: RealCluster) -> Iterator[Keyrail]:
    started = Keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: started.http("/readyz")[0] == 200)
    yield started
    started.close()


def test_each_node_answers_for_itself(cluster: RealCluster, keyrail: Keyrail) -> None:
    with redis.Redis(port=keyrail.address.port, decode_responses=True) as client:
        for number in range(60):
            client.set(f"key:{number}", number)
        sizes = [client.execute_command("KEYRAIL", "NODE", name, "DBSIZE") for name in NAMES]
        assert sizes == [node.do("DBSIZE") for node in cluster.nodes[:3]]
        assert sum(sizes) == client.dbsize() == 60
        client.execute_command("KEYRAIL", "NODE", "n2", "CONFIG", "SET", "slowlog-max-len", "77")
        told = [client.execute_command("KEYRAIL", "NODE", name, "CONFIG", "GET", "slowlog-max-len") for name in NAMES]
        assert [answer["slowlog-max-len"] == "77" for answer in told] == [False, True, False]
        cursor, keys = client.execute_command("KEYRAIL", "NODE", "n3", "SCAN", "0", "COUNT", "1000")
        assert (cursor, len(keys)) == ("0", sizes[2])
        infos = [client.execute_command("KEYRAIL", "NODE", name, "INFO", "server") for name in NAMES]
        assert len({line for info in infos for line in info.splitlines() if line.startswith("run_id:")}) == 3
        owner = next(name for name, node in zip(NAMES, cluster.nodes[:3], strict=True) if node.do("KEYS", "key:1"))
        assert client.execute_command("KEYRAIL", "NODE", owner, "GET", "key:1") == "1"
        other = NAMES[NAMES.index(owner) - 1]
        with pytest.raises(redis.ResponseError, match=f"the keys of this GET are on {owner}, not on {other}"):
            client.execute_command("KEYRAIL", "NODE", other, "GET", "key:1")
        with pytest.raises(redis.ResponseError, match="n4 is no primary of this cluster: its primaries are n1, n2, n3"):
            client.execute_command("KEYRAIL", "NODE", "n4", "INFO")
