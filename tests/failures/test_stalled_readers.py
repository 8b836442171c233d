"""Nobody reads what Keyrail writes: standard error is a full pipe, the violations' file a FIFO. Clients and the admin
port are served, a policy is reloaded, and SIGTERM ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engines import Engine, free_port
from tests.keyrail_process import DIRECT, command_line, environment
from tests.resp import Address, Wire, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay writes no files")

POLICY = "keyrail: 1\nrules: {no-keys: {refuse: [KEYS], mode: enforce}}\n"


def full_pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(writer, b"x" * size)
        except BlockingIOError:
            continue
    os.set_blocking(writer, True)
    return reader, writer


class Stalled:
    """A Keyrail whose standard error nobody reads."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY)
        os.mkfifo(folder / "violations")
        self.port, self.admin = free_port(), free_port()
        self.reader, writer = full_pipe()
        self.process = subprocess.Popen(
            [
                *(*command_line(), "--listen", f"redis://127.0.0.1:{self.port}", "--upstream", engine.url),
                *("--admin", f"127.0.0.1:{self.admin}", "--policy", str(self.policy), "--workers", "2"),
                *("--violations", str(folder / "violations")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            env=environment(),
        )
        os.close(writer)

    def http(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=5.0) as answer:
            return str(answer.read().decode())

    def serves(self) -> bool:
        try:
            return "no-keys" in self.http("/rules")
        except OSError:
            return False


@pytest.fixture
def stalled(new_engine: Callable[..., Engine], tmp_path: Path) -> Iterator[Stalled]:
    found = Stalled(new_engine(), tmp_path)
    yield found
    if found.process.poll() is None:
        found.process.kill()
        found.process.wait()
    os.close(found.reader)


def test_keyrail_serves_and_ends_although_nobody_reads_its_lines(stalled: Stalled) -> None:
    eventually(stalled.serves)
    with Wire(Address(port=stalled.port)) as wire:
        for _ in range(300):
            assert wire.ask("KEYS", "*").startswith(b"-DENIED")
        assert wire.ask("GET", "no such key") == b"$-1\r\n"
        assert stalled.http("/healthz")
        stalled.policy.write_text(POLICY.replace("KEYS", "KEYS, DBSIZE"))
        stalled.process.send_signal(signal.SIGHUP)
        eventually(lambda: "\nkeyrail_policy_generation 2.0" in stalled.http("/metrics"))
        lost = 'keyrail_log_lines_dropped_total{log="violations",process="supervisor"}'
        eventually(lambda: f"{lost} 0.0" not in stalled.http("/metrics"))
        assert 'keyrail_log_lines_dropped_total{log="stderr",process="worker-1"}' in stalled.http("/metrics")
        assert wire.ask("PING") == b"+PONG\r\n"
    stalled.process.send_signal(signal.SIGTERM)
    assert stalled.process.wait(15.0) == 0
