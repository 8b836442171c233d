"""Starts and stops the measured programs."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


class StartError(Exception):
    """A program did not start; the text names it and has its output."""


def free_port() -> int:
    """A free TCP port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Program:
    """A child process whose output is kept, so that a failure can be explained."""

    def __init__(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self.argv = list(argv)
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            self.argv,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait_for_line(self, words: str, seconds: float = 60.0) -> str:
        """The first line of output that holds ``words``; raises StartError if it does not come."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if words in line:
                    return line
            self._check_alive()
            time.sleep(0.02)
        raise StartError(self._story(f"did not print {words!r} within {seconds:g} s"))

    def wait_for_port(self, port: int, seconds: float = 60.0) -> None:
        """Return when the port of 127.0.0.1 accepts connections; raises StartError if it does not."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                return
            self._check_alive()
            time.sleep(0.02)
        raise StartError(self._story(f"did not listen on port {port} within {seconds:g} s"))

    def _check_alive(self) -> None:
        if self._process.poll() is not None:
            self._reader.join(1.0)
            raise StartError(self._story(f"ended with status {self._process.returncode}"))

    def _story(self, what: str) -> str:
        return "\n  ".join([f"{shlex.join(self.argv)} {what}", *self.lines[-10:]])

    def kill(self) -> None:
        """Let it die at once, as a crash does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End the process with SIGTERM, and after 5 s with SIGKILL."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(5.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(1.0)
        if self._process.stdout is not None and not self._reader.is_alive():
            self._process.stdout.close()


@contextlib.contextmanager
def running(argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Iterator[Program]:
    """A program that ends with the block."""
    program = Program(argv, cwd=cwd, env=env)
    try:
        yield program
    finally:
        program.stop()
