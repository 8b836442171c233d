"""`keyrail serve` as a process, with any arguments, environment and files."""

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from tests.fork_server import Forked
from tests.forked_workers import WORKER, is_called
from tests.keyrail_process import FORKED, after_program, children, command_line, environment
from tests.resp import PATIENCE_SECONDS, Address, Wire

READY = r"^keyrail: ready on (.*)$"
STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info|warning|error) (?=keyrail: )", re.MULTILINE)
"""Time and level of a line; tests look at what is said (`test_log_format` looks at these)."""


class Running:
    """A started `serve`. Leaving the `with` block kills whatever is left of it."""

    def __init__(
        self,
        *arguments: str,
        variables: dict[str, str] | None = None,
        folder: Path | None = None,
        open_files: int | None = None,
        forked: bool = FORKED,
    ) -> None:
        limited = () if open_files is None else ("sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh")
        words, chosen = [*command_line(), *arguments], environment() | (variables or {})
        # Each is a process group with its workers, its engine and its successors.
        self.process: subprocess.Popen[str] | Forked
        if limited or not forked:
            self.process = subprocess.Popen(
                [*limited, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=chosen,
                cwd=folder,
                process_group=0,
            )
        else:
            self.process = Forked(after_program(words), env=chosen, cwd=folder, own_group=True)
        self._output = {"stdout": "", "stderr": ""}
        self.stamped: list[str] = []
        """All lines, as they are."""
        self._threads = [
            threading.Thread(target=self._collect, args=(name, getattr(self.process, name))) for name in self._output
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A process that is left holds the pipes that the threads read.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _collect(self, name: str, stream: Any) -> None:
        for line in stream:
            self.stamped.append(line)
            self._output[name] += STAMP.sub("", line)

    @property
    def stderr(self) -> str:
        return self._output["stderr"]

    @property
    def stdout(self) -> str:
        return self._output["stdout"]

    def await_line(self, pattern: str, seconds: float = 3 * PATIENCE_SECONDS) -> str:
        """Wait for a line on stderr."""
        for _ in ticks(seconds):
            found = re.search(pattern, self.stderr, re.MULTILINE)
            if found is not None:
                return found[0]
            if self.process.poll() is not None:
                break
        raise AssertionError(f"no line like {pattern!r} in:\n{self.stderr}")

    def ready(self) -> Self:
        self.await_line(READY)
        return self

    def exit(self, seconds: float = 3 * PATIENCE_SECONDS) -> tuple[int, str]:
        """Wait for the end; return the exit status and stderr."""
        status = self.process.wait(seconds)
        for thread in self._threads:
            thread.join()
        assert "Traceback" not in self.stderr, self.stderr
        return status, self.stderr

    def stop(self, seconds: float = 3 * PATIENCE_SECONDS) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.exit(seconds)[0]

    def ports(self) -> list[int]:
        """The ports of its TCP listeners, in the order of the ready line."""
        return [int(port) for port in re.findall(r"rediss?://127\.0\.0\.1:(\d+)(?=[, ])[^>]*?->", self.ready_line())]

    def ready_line(self) -> str:
        return self.await_line(READY)

    def wire(self, port: int | None = None) -> Wire:
        return Wire(Address(port=port or self.ports()[0]))

    @property
    def admin(self) -> str:
        """The admin port's URL."""
        found = re.search(r"admin (http://\S+)", self.stderr)
        assert found is not None
        return found[1]

    def http(
        self, path: str, post: object = None, headers: dict[str, str] | None = None, method: str | None = None
    ) -> tuple[int, str]:
        """Status and body of the admin port's answer, to a POST where something is to be posted."""
        body = None if post is None else json.dumps(post).encode()
        request = urllib.request.Request(self.admin + path, body, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def await_http(self, path: str, status: int) -> str:
        """Wait until the admin port answers with this status; return the body."""
        seen = 0, ""
        for _ in ticks():
            seen = self.http(path)
            if seen[0] == status:
                return seen[1]
        raise AssertionError(f"{path} is answered {seen}, not {status}")

    def json(self, path: str) -> Any:
        return json.loads(self.http(path)[1])

    def metric(self, sample: str) -> float:
        """The value of a sample, written as Prometheus does; -1 if there is none."""
        for line in self.http("/metrics")[1].splitlines():
            if line.startswith(sample + " "):
                return float(line.rpartition(" ")[2])
        return -1.0

    def await_metric(self, sample: str, value: float, seconds: float = PATIENCE_SECONDS) -> None:
        seen = -1.0
        for _ in ticks(seconds):
            seen = self.metric(sample)
            if seen == value:
                return
        raise AssertionError(f"{sample} is {seen}, not {value}")

    def workers(self) -> list[int]:
        """The pids of the worker processes."""
        found = []
        for child in children(self.process.pid):
            with contextlib.suppress(FileNotFoundError):
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"proxy.server.worker" in command or is_called(child, WORKER):
                    found.append(child)
        return found


def serve(
    *arguments: str,
    variables: dict[str, str] | None = None,
    folder: Path | None = None,
    open_files: int | None = None,
    forked: bool = FORKED,
) -> Running:
    """Start `serve` on free ports unless the arguments say otherwise."""
    listen = () if "--listen" in arguments or "--config" in arguments else ("--listen", "127.0.0.1:0")
    admin = () if "--admin" in arguments or "--config" in arguments else ("--admin", "127.0.0.1:0")
    return Running(
        *listen, *admin, *arguments, variables=variables, folder=folder, open_files=open_files, forked=forked
    )


def stream(running: Running, path: str = "/events?window=10") -> Any:
    """An answer of the admin port that does not end."""
    return contextlib.closing(urllib.request.urlopen(running.admin + path, timeout=3 * PATIENCE_SECONDS))


def events(answer: Any) -> Iterator[tuple[str, Any]]:
    """Names and data of server-sent events, as they come."""
    name = ""
    for line in answer:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


def refused(arguments: Sequence[str], **options: Any) -> tuple[int, list[str]]:
    """Start `serve` that must not come up; return its exit status and its lines."""
    with serve(*arguments, **options) as running:
        status, text = running.exit()
    lines = text.splitlines()
    assert lines
    assert all(line.startswith("keyrail: ") for line in lines)
    return status, lines


def ticks(seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Turn often, until the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.03)
