"""redis-cli, redis-benchmark and a Node client work unmodified.

Proves: the interactive client's handshake and modes (pipe, scan, repeat, RESP3, subscribing, statistics), the
benchmark's load with and without pipelining, and ioredis or node-redis over their common paths.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import PATIENCE_SECONDS, eventually, pack

ENGINE = "valkey-9.1"


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


@pytest.fixture
def keyrail(fleet: Fleet, pooling: bool) -> Keyrail:
    fleet.engine(ENGINE).do("FLUSHALL")
    return fleet.keyrail(ENGINE, pooling=pooling)


def cli(keyrail: Keyrail, *arguments: str, given: bytes = b"", seconds: float = 2 * PATIENCE_SECONDS) -> str:
    command = [tool("redis-cli"), "-p", str(keyrail.address.port), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, timeout=seconds, check=False)
    return (done.stdout + done.stderr).decode(errors="replace")


def test_redis_cli(keyrail: Keyrail) -> None:
    assert cli(keyrail, "PING") == "PONG\n"
    assert cli(keyrail, "SET", "k", "v") == "OK\n"
    assert cli(keyrail, "-3", "HSET", "h", "f", "v") == "1\n"
    assert cli(keyrail, "-3", "--no-raw", "HGETALL", "h") == '1# "f" => "v"\n'
    assert cli(keyrail, "-n", "3", "GET", "k") == "\n"
    assert cli(keyrail, "-r", "5", "INCR", "n").split() == ["1", "2", "3", "4", "5"]
    assert "ERR unknown command" in cli(keyrail, "NOSUCH")


def test_redis_cli_session(keyrail: Keyrail) -> None:
    """Typed into it, one line after the other: transactions, databases, errors."""
    typed = b"SET k 1\nMULTI\nINCR k\nGET k\nEXEC\nSELECT 2\nGET k\nWATCH k\nDISCARD\nHELLO 3\nHSET h f v\nHGETALL h\n"
    shown = cli(keyrail, given=typed).split("\n")
    assert shown[:8] == ["OK", "OK", "QUEUED", "QUEUED", "2", "2", "OK", ""]
    assert "ERR DISCARD without MULTI" in shown
    assert shown[-3:] == ["1", "f v", ""]


def test_redis_cli_pipe(keyrail: Keyrail, fleet: Fleet) -> None:
    data = b"".join(pack("SET", f"key:{index}", index) for index in range(20_000))
    assert "errors: 0, replies: 20000" in cli(keyrail, "--pipe", given=data)
    assert fleet.engine(ENGINE).do("DBSIZE") == 20_000
    assert len(cli(keyrail, "--scan", "--pattern", "key:1999*").split()) == 11
    assert "Biggest string found" in cli(keyrail, "--bigkeys")


def test_redis_cli_subscribing(keyrail: Keyrail, fleet: Fleet) -> None:
    command = [tool("redis-cli"), "-p", str(keyrail.address.port), "SUBSCRIBE", "news"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
        if listener.stdout is None:
            raise AssertionError("stdout is a pipe")
        assert [listener.stdout.readline().strip() for _ in range(3)] == ["subscribe", "news", "1"]
        assert fleet.engine(ENGINE).do("PUBLISH", "news", "hello") == 1
        assert [listener.stdout.readline().strip() for _ in range(3)] == ["message", "news", "hello"]
        listener.terminate()


@pytest.mark.parametrize("pipelined", [1, 16])
def test_redis_benchmark(keyrail: Keyrail, pipelined: int) -> None:
    command = [tool("redis-benchmark"), "-p", str(keyrail.address.port), "-c", "50", "-P", str(pipelined), "--csv"]
    tests = "ping_inline,ping_mbulk,set,get,incr,lpush,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset"
    options = ["-n", "2000", "-r", "1000", "-t", tests]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=4 * PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    rates = re.findall(r'^"([^"]+)","([\d.]+)"', done.stdout, re.MULTILINE)
    assert len(rates) >= 14
    assert all(float(rate) > 0 for _, rate in rates)
    assert "error" not in done.stderr.lower()


def node_with(library: str) -> str:
    """Node, where it finds this library."""
    node = tool("node")
    installed = subprocess.run(
        [node, "-e", f"require.resolve({library!r})"], capture_output=True, check=False, env=os.environ
    )
    if installed.returncode:
        pytest.skip(f"{library} is not installed where NODE_PATH points")
    return node


@pytest.mark.skipif(DIRECT, reason="behind a plain relay every client loses its connection")
def test_node_scripts_in_transactions_survive_a_restart(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]
) -> None:
    """ioredis knows for each socket which scripts it has loaded, and does not load them again inside MULTI."""
    node, engine = node_with("ioredis"), new_engine()
    keyrail = new_keyrail(engine.url)
    command = [node, str(Path(__file__).parent / "restart.cjs"), str(keyrail.address.port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "loaded\n"
        engine.kill()
        engine.start()
        eventually(lambda: keyrail.http("/readyz")[0] == 200)
        out, errors = running.communicate("back\n", timeout=2 * PATIENCE_SECONDS)
    assert (out, errors) == ("done\n", "")


@pytest.mark.parametrize("library", ["ioredis", "redis"])
def test_node(keyrail: Keyrail, library: str) -> None:
    """The script says what it checks, and ends with `done`."""
    node = node_with(library)
    script = Path(__file__).parent / f"{library}.cjs"
    done = subprocess.run(
        [node, str(script), str(keyrail.address.port)],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_SECONDS,
        check=False,
    )
    assert done.stdout.strip().endswith("done"), done.stdout + done.stderr
