"""Client libraries turn Keyrail's errors into the exceptions that the documentation lists, and do not retry
commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conftest import Fleet
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(DIRECT, reason="these errors are Keyrail's own")

ENGINE = "valkey-9.1"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "libraries.md"
POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  walks: {refuse: [KEYS], instead: use SCAN}
  introductions: {refuse: [CLIENT SETINFO, CLIENT GETNAME]}
  few: {limits: {per: app, commands: [PFADD], rate: 1/m}}
"""


@pytest.fixture(scope="module")
def keyrail(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyrail]:
    policy = tmp_path_factory.mktemp("errors") / "policy.yaml"
    policy.write_text(POLICY)
    keyrail = Keyrail(fleet.engine(ENGINE).url, policy=policy)
    yield keyrail
    keyrail.close()


def documented() -> dict[str, str]:
    """The exceptions that redis-py makes of errors, by the text on the wire."""
    section = PAGE.read_text().partition("## What an error becomes")[2]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {row[0]: row[2] for row in rows[1:] if not row[0].startswith("---")}


def pipelined(client: Any) -> None:
    pipeline = client.pipeline()
    pipeline.set("a:b", "1").keys("*")
    pipeline.execute()


def exhausting(client: Any) -> None:
    for _ in range(3):
        client.pfadd("a:b:c", "x")


CASES: dict[str, tuple[Callable[[Any], object], str]] = {
    "`-DENIED keyrail/<rule>: …`": (lambda client: client.keys("*"), "DENIED keyrail/walks: KEYS is .*; use SCAN"),
    "`-DENIED … retry after 20 ms`": (exhausting, r"DENIED keyrail/few: .*; retry after \d+ ms"),
    "the same inside MULTI, then `-EXECABORT` at EXEC": (pipelined, r"# 2 \(KEYS \*\) .*: DENIED keyrail/walks: "),
    "`-NOPERM …`": (lambda client: client.client_getname(), "this user has no permissions to run the 'client.getname'"),
    "`-ERR Keyrail: …`": (
        lambda client: client.pipeline().execute_command("KEYRAIL", "INFO").execute(),
        "Keyrail: KEYRAIL INFO inside MULTI is not supported",
    ),
}


@pytest.mark.parametrize("wire", CASES)
def test_redis_py(keyrail: Keyrail, wire: str) -> None:
    provoke, text = CASES[wire]
    with redis.Redis(port=keyrail.address.port, socket_timeout=PATIENCE_SECONDS) as client:
        assert client.ping(), "connecting goes on although CLIENT SETINFO is refused"
        with pytest.raises(redis.RedisError) as caught:
            provoke(client)
        assert re.search(text, str(caught.value))
        assert documented()[wire].startswith(f"`{type(caught.value).__name__}`")
        assert not isinstance(caught.value, redis.ConnectionError | redis.TimeoutError), "those are sent again"
        assert client.ping(), "on the same connection"


def test_the_table_has_nothing_else_to_try() -> None:
    assert documented().keys() - CASES.keys() == {"the connection closes"}


@pytest.mark.parametrize("library", ["ioredis", "redis"])
def test_node(keyrail: Keyrail, library: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed here")
    if subprocess.run([node, "-e", f"require.resolve({library!r})"], capture_output=True, check=False).returncode:
        pytest.skip(f"{library} is not installed where NODE_PATH points")
    done = subprocess.run(
        [node, str(Path(__file__).parent / "errors.cjs"), library, str(keyrail.address.port)],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_SECONDS,
        check=False,
        env=os.environ,
    )
    assert done.stdout.strip().endswith("done"), done.stdout + done.stderr
