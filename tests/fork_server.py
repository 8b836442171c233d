"""Starts Keyrails without importing the program each time, which is most of what a start costs.

A process imports all that `keyrail serve` needs, and forks for each start: in the child everything is as after
`python -m proxy serve …` in this folder, with this environment and these streams. It starts its workers likewise
(`forked_workers`), and neither takes the interpreter apart at its end. With `KEYRAIL_TEST_STARTS=real`, which
`.ci/night` sets, every Keyrail is started as users do.

`python -P fork_server.py FD` is the process; `Forked` is what tests hold in place of a `subprocess.Popen`, and
`fork_client` stands for the program where a shell starts it.
"""

from __future__ import annotations

import array
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

_MOST_BYTES = 1 << 20
_PID = struct.Struct("i")
_HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2, signal.SIGCHLD, signal.SIGPIPE)


class Forked:
    """One started program. `stdout` and `stderr` are text; without `output`, nothing is seen of the former."""

    def __init__(
        self,
        arguments: list[str],
        *,
        env: Mapping[str, str],
        cwd: Path | str | None = None,
        output: bool = True,
        own_group: bool = False,
        open_files: int | None = None,
    ) -> None:
        self.args = arguments
        self.returncode: int | None = None
        self._lock = threading.Lock()
        out, err, (self._ended, ended) = os.pipe() if output else None, os.pipe(), os.pipe()
        theirs = [os.open(os.devnull, os.O_RDONLY), out[1] if out else os.open(os.devnull, os.O_WRONLY), err[1], ended]
        request = {
            "arguments": arguments,
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
            "group": own_group,
            "open_files": open_files,
        }
        try:
            _server(env.get("PYTHONPATH", "")).start(json.dumps(request).encode(), theirs)
        finally:
            for each in theirs:
                os.close(each)
        self.pid: int = _PID.unpack(os.read(self._ended, _PID.size))[0]
        self.stdout: IO[str] | None = os.fdopen(out[0], errors="replace") if out else None
        self.stderr: IO[str] | None = os.fdopen(err[0], errors="replace")

    def __del__(self) -> None:
        if hasattr(self, "_ended"):
            os.close(self._ended)

    def poll(self) -> int | None:
        """The exit status, or the negated number of the signal that ended it; None while it lives."""
        return self._await(0)

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it has ended. Raises TimeoutExpired."""
        found = self._await(timeout)
        if found is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return found

    def _await(self, timeout: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and self._is_known(timeout):
                self.returncode = os.waitstatus_to_exitcode(_PID.unpack(os.read(self._ended, _PID.size))[0])
            return self.returncode

    def _is_known(self, timeout: float | None) -> bool:
        end = select.poll()
        end.register(self._ended, select.POLLIN | select.POLLHUP)
        return bool(end.poll(None if timeout is None else 1000 * timeout))

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class _Server:
    """The process that forks, as this test process knows it; it ends with this one."""

    def __init__(self, path: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("KEYRAIL_")}
            | {"PYTHONPATH": path},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def start(self, request: bytes, streams: list[int]) -> None:
        with self._lock:
            socket.send_fds(self._socket, [request], streams)

    def fileno(self) -> int:
        return self._socket.fileno()


def requests_of(path: str) -> int:
    """The descriptor through which `fork_client` asks, for tests that type commands; `path` is where the program is."""
    return _server(path).fileno()


@cache
def _server(path: str) -> _Server:
    return _Server(path)


def _serve(requests: socket.socket) -> dict[str, Any]:
    # Returns in each child, with what it has been asked for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, ancillary, _, _ = requests.recvmsg(_MOST_BYTES, socket.CMSG_SPACE(4 * _PID.size))
        if not data:
            os._exit(0)
        streams = array.array("i")
        for _, _, packed in ancillary:
            streams.frombytes(packed)
        if os.fork() == 0:
            requests.close()
            _fork_and_await(streams)
            request: dict[str, Any] = json.loads(data)
            return request
        for each in streams:
            os.close(each)


def _fork_and_await(streams: array.array[int]) -> None:
    # The first child waits for the second one, which goes on from here, and says how it ended.
    *standard, ended = streams
    for number in _HEEDED[:-1]:
        signal.signal(number, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        os.closerange(0, ended)
        os.write(ended, _PID.pack(pid))
        for number in _HEEDED[:-2]:
            signal.signal(number, signal.SIG_IGN)
        os.write(ended, _PID.pack(os.waitpid(pid, 0)[1]))
        os._exit(0)
    for descriptor, stream in enumerate(standard):
        os.dup2(stream, descriptor)
    for stream in streams:
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _become(request: dict[str, Any]) -> None:
    if request["group"]:
        os.setpgid(0, 0)
    if request["open_files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (request["open_files"],) * 2)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path.insert(0, request["cwd"])
    sys.argv[1:] = request["arguments"]
    sys.orig_argv[1:] = ["-m", "proxy", *request["arguments"]]


def _main() -> int:
    import proxy.cli.serve
    import proxy.server.supervisor  # each child finds it imported
    import proxy.server.worker  # noqa: F401  each worker, too
    from proxy.cli import main

    sys.path.append(str(Path(__file__).parent.parent))
    from tests.forked_workers import fork_workers, leave

    sys.path.pop()

    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        request = _serve(requests)
    _become(request)
    fork_workers()
    leave(main())


if __name__ == "__main__":
    sys.exit(_main())
