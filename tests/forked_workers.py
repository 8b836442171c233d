"""Lets a Keyrail that `fork_server` has started fork its workers, which a real one starts as programs of their own.

A process beside it, which has imported the program and done nothing, forks when it is asked. It hands each worker over
to the Keyrail, as the child that a started program would be, with the same file descriptors under the same numbers.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import fcntl
import gc
import json
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from proxy.server import worker_start

HELPER: Final = "keyrail-forks"
WORKER: Final = "keyrail-worker"
"""What the two kinds of processes are called."""

_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_MOST_DESCRIPTORS: Final = 250
_PID: Final = struct.Struct("i")
_libc: Final = ctypes.CDLL(None, use_errno=True)


def is_called(pid: int, name: str) -> bool:
    """Whether a process has this name; one that is gone has none."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip() == name
    except (FileNotFoundError, ProcessLookupError):
        return False


class _Worker:
    """What the program looks at in a `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None
        self._waiting = threading.Lock()

    def wait(self) -> int:
        with self._waiting:
            if self._status is None:
                self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return self._status

    def kill(self) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)


def leave(status: int) -> NoReturn:
    """End this process without taking apart what it has imported."""
    threading._shutdown()  # type: ignore[attr-defined]  # as an interpreter does first: it waits for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def fork_workers() -> None:
    """From now on, this process forks its workers. To be called before it has done anything."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _fork_when_asked(theirs)
    theirs.close()

    def start(command: list[str], **settings: Any) -> Any:
        return _Worker(_ask(ours, command[4:], settings))

    vars(worker_start)["Popen"] = start  # for workers, it does what the program needs


def _ask(helper: socket.socket, arguments: Sequence[str], settings: dict[str, Any]) -> int:
    descriptors = settings["pass_fds"]
    request = {"arguments": arguments, "env": dict(settings["env"]), "descriptors": descriptors}
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        socket.send_fds(helper, [json.dumps(request).encode()], descriptors)
        pid: int = _PID.unpack(helper.recv(_PID.size))[0]
    finally:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    return pid


def _fork_when_asked(requests: socket.socket) -> None:
    # Returns nowhere. A worker's parent ends at once, so that the Keyrail, this process's parent, takes its place.
    _libc.prctl(_PR_SET_NAME, HELPER.encode(), 0, 0, 0)
    os.setpgid(0, 0)
    while True:
        data, ancillary, _, _ = requests.recvmsg(1 << 20, socket.CMSG_SPACE(_MOST_DESCRIPTORS * _PID.size))
        if not data:
            os._exit(0)
        received = array.array("i")
        for _, _, packed in ancillary:
            received.frombytes(packed)
        told, tell = os.pipe()
        between = os.fork()
        if between == 0:
            worker = os.fork()
            if worker == 0:
                _become_worker(requests, json.loads(data), received)
            os.write(tell, _PID.pack(worker))
            os._exit(0)
        os.waitpid(between, 0)
        requests.send(os.read(told, _PID.size))
        for each in (told, tell, *received):
            os.close(each)


def _become_worker(requests: socket.socket, request: dict[str, Any], received: array.array[int]) -> None:
    _libc.prctl(_PR_SET_NAME, WORKER.encode(), 0, 0, 0)
    os.setpgid(0, 0)
    wanted = request["descriptors"]
    above = max(wanted) + 1
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD, above) for each in received]
    requests.close()
    os.closerange(3, above)
    for here, there in zip(moved, wanted, strict=True):
        os.dup2(here, there)
        os.close(here)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["arguments"]
    gc.unfreeze = lambda: None  # the collector would look through, and so copy, all that was imported before the fork
    try:
        worker_start.become_worker()
    except SystemExit as ended:
        leave(int(ended.code or 0))
