"""The program under test: `python -m proxy serve …`, a process with a ready line (`fork_server` starts most of them).

With `KEYRAIL_TEST_TARGET=direct` a plain byte relay takes Keyrail's place: every differential test must then pass,
which proves that the tests require only what the engines do.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.engines import free_port
from tests.fork_server import Forked
from tests.forked_workers import HELPER, is_called
from tests.resp import PATIENCE_SECONDS, Address, Wire, eventually

READY_SECONDS = 3 * PATIENCE_SECONDS
BUILD_FORM = os.environ.get("KEYRAIL_TEST_FORM")
"""`compiled` or `plain`, where the run is about one of them: every ready line must say so."""

FORKED = os.environ.get("KEYRAIL_TEST_STARTS") != "real"
"""Whether Keyrails are forked from a process that has imported the program, or started as users start them (`real`)."""

_STAMP = re.compile(r"^\S+Z (info|warning|error) (?=keyrail: )")
"""Time and level of a line; tests look at what is said."""

DIRECT = os.environ.get("KEYRAIL_TEST_TARGET") == "direct"


def command_line() -> list[str]:
    """How to start the same program, in the same form, that this test process would import."""
    return [sys.executable, "-m", "proxy", "serve"]


def after_program(words: Sequence[str]) -> list[str]:
    """The arguments in a command line that begins as `command_line` does."""
    return list(words[len(command_line()) - 1 :])


def package_folder() -> Path:
    """The folder of the package under test: the one that this test process would import."""
    spec = importlib.util.find_spec("proxy")
    if spec is None or spec.origin is None:
        raise AssertionError("the program under test cannot be found")
    return Path(spec.origin).parent


def environment(package: Path | None = None) -> dict[str, str]:
    """This process's environment, with the package under test found first and no setting of the developer's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KEYRAIL_")}
    kept["PYTHONPATH"] = str((package or package_folder()).parent)
    return kept


class Keyrail:
    """One running Keyrail with one route. `policy` is a path, the name `none`, or None for the packaged default;
    `package` is another copy of the program to run, `variables` are more of its environment."""

    def __init__(
        self,
        upstream: str,
        *,
        policy: str | Path | None = "none",
        pooling: bool = True,
        workers: int = 1,
        extra: Sequence[str] = (),
        await_ready: bool = True,
        package: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.address = Address(port=free_port())
        self.admin_port = free_port()
        self.stderr = ""
        self._output = threading.Condition()
        self.is_read = threading.Event()
        """Whether anybody reads its standard error."""
        self.is_read.set()
        relay = [sys.executable, "-m", "tests.relay", str(self.address.port), upstream]
        serve = [
            *command_line(),
            *("--listen", f"redis://127.0.0.1:{self.address.port}"),
            *("--upstream", upstream),
            *("--admin", f"127.0.0.1:{self.admin_port}"),
            *("--pooling", "on" if pooling else "off"),
            *("--workers", str(workers)),
            *("--connect-timeout", f"{PATIENCE_SECONDS:.0f}s"),
            *("--accept-patience", f"{PATIENCE_SECONDS:.0f}s"),  # on a busy machine, clients of tests are patient
            *(("--policy", str(policy)) if policy is not None else ()),
            *extra,
        ]
        self.folder = tempfile.TemporaryDirectory(prefix="keyrail-test-")
        self.process: subprocess.Popen[str] | Forked
        if DIRECT or package is not None or not FORKED:
            self.process = subprocess.Popen(
                relay if DIRECT else serve,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**environment(package), **(variables or {})} if not DIRECT else None,
                cwd=None if DIRECT else self.folder.name,
            )
        else:
            chosen = {**environment(), **(variables or {})}
            self.process = Forked(after_program(serve), env=chosen, cwd=self.folder.name, output=False)
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()
        if await_ready:
            try:
                ready = self.await_line(r"^keyrail: ready on .*$", READY_SECONDS)
                if BUILD_FORM is not None and package is None and not DIRECT:
                    assert f", {BUILD_FORM}" in ready, (
                        f"this is a run of the {BUILD_FORM} form, and Keyrail says: {ready}"
                    )
            except AssertionError:
                self.close()
                raise

    def _collect(self) -> None:
        if self.process.stderr is None:
            raise AssertionError("stderr is a pipe")
        for line in self.process.stderr:
            self.is_read.wait()
            with self._output:
                self.stderr += _STAMP.sub("", line)
                self._output.notify_all()
        with self._output:
            self._output.notify_all()

    def await_line(self, pattern: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait for a line on stderr. Raises AssertionError with all of stderr."""
        deadline = time.monotonic() + seconds
        with self._output:
            while (match := re.search(pattern, self.stderr, re.MULTILINE)) is None:
                left = deadline - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._reader.is_alive()):
                    raise AssertionError(f"no line like {pattern!r} in:\n{self.stderr}")
                self._output.wait(min(left, 0.2))
        return match[0]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.address.port}"

    def wire(self, protocol: int = 2, timeout: float = PATIENCE_SECONDS) -> Wire:
        return Wire(self.address, protocol=protocol, timeout=timeout)

    def http(self, path: str) -> tuple[int, str]:
        """Status and body of the admin port's answer."""
        url = f"http://127.0.0.1:{self.admin_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry these labels; 0 if there is none."""
        total = 0.0
        for line in self.http("/metrics")[1].splitlines():
            match = re.match(rf"{name}(?:\{{(.*)\}})? (\S+)$", line)
            if match is None:
                continue
            found = dict(re.findall(r'(\w+)="([^"]*)"', match[1] or ""))
            if all(found.get(label) == value for label, value in labels.items()):
                total += float(match[2])
        return total

    def hot_keys(self, count: int = 10, window: int = 60) -> dict[str, object]:
        answer: dict[str, object] = json.loads(self.http(f"/hotkeys?count={count}&window={window}")[1])
        return answer

    def pids(self) -> list[int]:
        """The supervisor and its workers."""
        found, seen = [self.process.pid], 0
        while seen < len(found):
            found += children(found[seen])
            seen += 1
        return found

    def memory(self) -> int:
        """Resident bytes of all its processes."""
        return sum(_resident(pid) for pid in self.pids())

    def stop(self) -> int:
        """End it in the orderly way and return its exit status; kills it if that takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(2 * PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not stop on SIGTERM:\n{self.stderr}") from None

    def kill(self) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()

    def replace_worker(self) -> None:
        """Kill the one worker once the supervisor knows what it knows; wait until another one is there."""
        with self.wire() as wire:
            assert wire.ask("KEYRAIL", "INFO")[:1] == b"*", "with it, all is told that the supervisor is to know"
        (worker,) = self.pids()[1:]
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: self.pids()[1:] not in ([], [worker]))

    def close(self) -> None:
        """Let go of everything, without waiting for pending replies."""
        self.is_read.set()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                self.kill()
        self._reader.join(5)
        if self.process.stderr is not None:
            self.process.stderr.close()
        self.folder.cleanup()


def children(pid: int) -> list[int]:
    """The processes that any thread of this one has started; not what only forks workers for a test."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended since
            found += [int(child) for child in task.read_text().split()]
    return [child for child in found if not is_called(child, HELPER)]


def _resident(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    match = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def listening(port: int) -> bool:
    """Somebody accepts connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def packaged_policy(name: str) -> Path:
    """A policy that comes with the program, wherever it lives: in the wheel, or beside the source."""
    package = package_folder()
    found = [path for path in (package / "policy/packaged" / name, package.parent / "policies" / name) if path.exists()]
    return found[0]
