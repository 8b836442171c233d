"""Faults of Keyrail's own processes, and of what stands around them: its clients, its disk, its log, its CPU."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from tests.failures.fault import AnyFault, Fault, OneRedis, as_before, lasts, one_redis, staged
from tests.failures.test_full_disk import fill, small_disk
from tests.keyrail_process import Keyrail
from tests.resp import eventually

MOST_CLIENTS = 5
LOOP = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
STARVED_SECONDS = 10.0
"""Longer than a worker that does not report is left alone."""


def end_workers(stage: OneRedis) -> None:
    for pid in stage.workers:
        os.kill(pid, signal.SIGKILL)


def stop_workers(stage: OneRedis) -> None:
    for pid in stage.workers:
        os.kill(pid, signal.SIGSTOP)


def has_new_worker(stage: OneRedis) -> bool:
    now = stage.keyrail.pids()[1:]
    return bool(now) and now != stage.workers and stage.readyz("ready", 200)


def asks_admin(keyrail: Keyrail, seconds: float = 1.0) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{keyrail.admin_port}/healthz", timeout=seconds):
            return True
    except (TimeoutError, urllib.error.URLError):
        return False


class Crowded(OneRedis):
    """It has few places for clients."""

    def __init__(self, stack: ExitStack, policy: str, _folder: Path) -> None:
        super().__init__(stack, policy, "--max-clients", str(MOST_CLIENTS))
        self._crowd = stack.enter_context(ExitStack())

    def come(self) -> None:
        """All places are taken."""

        def has_come() -> bool:
            wire = self._crowd.enter_context(self.keyrail.wire())
            return wire.ask("PING") != b"+PONG\r\n"

        eventually(has_come)

    def refuses(self) -> bool:
        closed = self.keyrail.metric("keyrail_client_closes_total", cause="max_clients")
        return closed > 0 and self.said("refusing clients: ")

    def leave(self) -> None:
        self._crowd.close()


class Unread(OneRedis):
    """It logs each client."""

    def __init__(self, stack: ExitStack, policy: str, _folder: Path) -> None:
        super().__init__(stack, policy, "--log-level", "debug")

    def stall(self) -> None:
        assert self.keyrail.process.stderr is not None
        fcntl.fcntl(self.keyrail.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        self.keyrail.is_read.clear()

    def read(self) -> None:
        self.keyrail.is_read.set()
        eventually(lambda: self.said("lines were dropped: standard error was not read"))

    def loses_lines(self) -> bool:
        for _ in range(100):
            self.gets("PING")
        return self.keyrail.metric("keyrail_log_lines_dropped_total", log="stderr") > 0


class OnASmallDisk(OneRedis):
    """Where it keeps its state."""

    def __init__(self, stack: ExitStack, policy: str, folder: Path) -> None:
        self.disk = stack.enter_context(small_disk(folder))
        super().__init__(stack, policy, "--state-dir", str(self.disk))

    def fill(self) -> None:
        self.ballast = fill(self.disk)

    def keeps_order(self) -> bool:
        """Whether the kill switch would survive a restart. It is off before and behind that."""
        kept = [self._order(each) for each in ("on", "off")]
        return all(kept)

    def _order(self, switch: str) -> bool:
        url = f"http://127.0.0.1:{self.keyrail.admin_port}/policy/kill-switch"
        body = json.dumps({"switch": switch, "for": "1m", "because": "a drill"}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=10.0) as answer:
                return bool(json.loads(answer.read())["survives_restart"])
        except urllib.error.HTTPError as error:
            with error:
                if "No space left" not in error.read().decode():
                    raise
            return False

    def free(self) -> None:
        self.ballast.unlink()
        eventually(self.keeps_order)


class Starved(OneRedis):
    """All of its threads compete with an endless loop for one CPU, at the lowest priority."""

    def __init__(self, stack: ExitStack, policy: str, _folder: Path) -> None:
        super().__init__(stack, policy)

    def starve(self) -> None:
        cpu = min(os.sched_getaffinity(0))
        self.loop = subprocess.Popen([sys.executable, "-c", LOOP])
        self.stack.callback(self.end)
        os.sched_setaffinity(self.loop.pid, {cpu})
        for pid in self.keyrail.pids():
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    os.sched_setaffinity(int(thread.name), {cpu})
                    os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))

    def end(self) -> None:
        self.loop.kill()
        self.loop.wait()

    def stays(self) -> bool:
        assert self.keyrail.pids()[1:] == self.workers, "a worker was replaced"
        return lasts(self, STARVED_SECONDS)


SURROUNDING_FAULTS: tuple[AnyFault, ...] = (
    Fault(
        "a worker is killed",
        "log",
        3,
        "a reply; a reply",
        "a reply; a reply",
        one_redis,
        end_workers,
        as_before,
        has_new_worker,
    ),
    Fault(
        "a worker hangs",
        "log",
        9,
        "a reply; a reply",
        "a reply; a reply",
        one_redis,
        stop_workers,
        as_before,
        has_new_worker,
    ),
    Fault(
        "the supervisor hangs",
        "no answer of the admin port",
        1,
        "a reply; a reply",
        "a reply; a reply",
        one_redis,
        lambda stage: os.kill(stage.keyrail.process.pid, signal.SIGSTOP),
        lambda stage: os.kill(stage.keyrail.process.pid, signal.SIGCONT),
        lambda stage: not asks_admin(stage.keyrail),
    ),
    Fault(
        "Keyrail gets less than 1 % of a CPU",
        "slow replies",
        0,
        "a reply; a reply",
        "a reply; a reply",
        staged(Starved),
        Starved.starve,
        Starved.end,
        Starved.stays,
    ),
    Fault(
        "too many clients (`--max-clients`): one more",
        "log; `keyrail_client_closes_total`",
        2,
        "ERR; ERR",
        "ERR; ERR",
        staged(Crowded),
        Crowded.come,
        Crowded.leave,
        Crowded.refuses,
    ),
    Fault(
        "nobody reads standard error",
        "`keyrail_log_lines_dropped_total`",
        0,
        "a reply; a reply",
        "a reply; a reply",
        staged(Unread),
        Unread.stall,
        Unread.read,
        Unread.loses_lines,
    ),
    Fault(
        "the disk of `--state-dir` is full",
        "the reply to an order",
        0,
        "a reply; a reply",
        "a reply; a reply",
        staged(OnASmallDisk),
        OnASmallDisk.fill,
        OnASmallDisk.free,
        lambda stage: not stage.keeps_order(),
    ),
)
