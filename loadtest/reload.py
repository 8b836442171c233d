"""``reload``: how long clients wait while a large policy comes into force, and how long the reload takes.

Four things change what is in force: a reload, a remedy, the kill switch, and the first client of an application. The
longest wait of another client is measured for each.

One client sends GETs, one at a time. On a machine with other work the kernel makes it wait, too, so the time in which a
thread was ready and the kernel ran others is subtracted from each wait. The result is compared with the longest wait
during an equally long time without a reload.
"""

import contextlib
import json
import os
import resource
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtest import kernel, targets
from loadtest.benchmark import RunError
from loadtest.memory import Measured
from loadtest.processes import Program, free_port, running

APPS = 60
PATTERNS = 400
PREFIX_RULES = 800
_GOAL = 10.0
_GET = b"*2\r\n$3\r\nGET\r\n$14\r\nteam0:thing0:1\r\n"


def policy(generation: int) -> str:
    """A policy with 60 apps, a schema of 400 patterns, and rules about all of them; each generation differs."""
    apps = "".join(f"  app{i}: {{contact: team{i}, match: {{user: app{i}}}}}\n" for i in range(APPS))
    entries = "".join(
        f'  e{i}: {{key: "team{i % APPS}:thing{i}:{{id:int}}", type: {("string", "hash", "list")[i % 3]}, '
        f"ttl: {i % 50 + 5}m, app: app{i % APPS}}}\n"
        for i in range(PATTERNS)
    )
    prefixes = ", ".join(f'app{i}: ["team{i}:"]' for i in range(APPS))
    return (
        f"keyrail: 1\ndefaults: {{mode: enforce}}\napps:\n{apps}schema:\n{entries}rules:\n"
        "  known: {names: {in_schema: true}}\n  types: {schema: type}\n  lifetimes: {schema: ttl}\n"
        f"  own: {{names: {{prefixes: {{{prefixes}, default: ['team0:']}}}}}}\n"
        "  no-walks: {refuse: [KEYS, FLUSHALL]}\n  unlink: {replace: {DEL: UNLINK}}\n"
        f"  rates: {{limits: {{per: app, rate: {100_000 + generation}/s}}}}\n"
    )


def prefix_rules(generation: int) -> str:
    """A policy with 800 lifetimes, each for its own prefix."""
    rules = (f'  r{i}: {{lifetime: {{default: {generation + 5}m, keys: "svc{i}:*"}}}}\n' for i in range(PREFIX_RULES))
    return f"keyrail: 1\nrules:\n{''.join(rules)}"


def measured(
    program: list[str], redis_program: str, reloads: int, say: Callable[[str], None]
) -> tuple[str, list[Measured]]:
    """Keyrail's form (compiled or plain), and all figures."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        redis = stack.enter_context(targets.redis_server(folder, redis_program))
        found = []
        file = folder / "policy.yaml"
        file.write_text(policy(0))
        with _serving(program, redis, file) as keyrail:
            with contextlib.ExitStack() as clients:
                for i in range(APPS):
                    clients.enter_context(keyrail.client(redis.port, f"app{i}"))
                say(f"{reloads} reloads, remedies and turns of the kill switch with {APPS} apps, {PATTERNS} patterns")
                found += _changes(keyrail, reloads)
            say("the first client of an app that was not there")
            keyrail.reload(policy(reloads + 1))  # without clients, so no app's plan is made
            found.append(_arrivals(keyrail, redis.port))
        form = keyrail.form
        file.write_text(prefix_rules(0))
        say(f"{PREFIX_RULES} prefix rules")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*program, "check", str(file)], check=True, capture_output=True, cwd=targets.REPOSITORY)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found.append(Measured(f"keyrail check of {PREFIX_RULES} prefix rules, CPU time", used, "s", 2.0))
        with _serving(program, redis, file) as keyrail, keyrail.client(redis.port, "app0"):
            used = kernel.cpu_seconds(keyrail.program.pid)
            for i in range(reloads):
                keyrail.reload(prefix_rules(i + 1))
            used = (kernel.cpu_seconds(keyrail.program.pid) - used) / reloads
        found.append(Measured(f"reload of {PREFIX_RULES} prefix rules, CPU time", used, "s", 2.0))
        return form, found


@dataclass(frozen=True, slots=True)
class _Keyrail:
    program: Program
    port: int
    admin: int
    form: str
    file: Path
    redis_pid: int

    @contextlib.contextmanager
    def client(self, redis_port: int, user: str) -> Iterator[socket.socket]:
        """A client that has logged in, so that its app's plan is made."""
        with socket.create_connection(("127.0.0.1", redis_port), 10.0) as redis:
            _ask(redis, f"ACL SETUSER {user} on nopass ~* &* +@all\r\n".encode())
        with socket.create_connection(("127.0.0.1", self.port), 30.0) as connection:
            _ask(connection, f"AUTH {user} x\r\n".encode())
            _ask(connection, b"PING\r\n")
            yield connection

    def reload(self, text: str) -> None:
        """Reload with this policy, and return when it is in force."""
        self.file.write_text(text)
        self.post("/policy/reload", {})

    def post(self, path: str, body: dict[str, str], method: str = "POST") -> None:
        """Change something through the admin port, and return when it is in force."""
        url = f"http://127.0.0.1:{self.admin}{path}"
        with urllib.request.urlopen(
            urllib.request.Request(url, json.dumps(body).encode(), method=method), timeout=120.0
        ) as answer:
            answer.read()


@contextlib.contextmanager
def _serving(program: list[str], redis: targets.Redis, file: Path) -> Iterator[_Keyrail]:
    port, admin = free_port(), free_port()
    argv = [*program, "serve", "--listen", f"redis://127.0.0.1:{port}", "--policy", str(file), "--watch", "off"]
    argv += ["--upstream", f"redis://127.0.0.1:{redis.port}", "--workers", "1", "--admin", f"127.0.0.1:{admin}"]
    with running(argv, cwd=targets.REPOSITORY) as started:
        ready = started.wait_for_line("ready on", 60.0)
        yield _Keyrail(started, port, admin, "compiled" if "compiled" in ready else "plain", file, redis.pid)


def _ask(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request)
    reply = connection.recv(4096)
    if not reply.startswith((b"+", b"$")):
        raise RunError(f"{request!r} was answered with {reply!r}")


def _changes(keyrail: _Keyrail, times: int) -> list[Measured]:
    def reload(turn: int) -> None:
        keyrail.reload(policy(turn + 1))

    def cap(turn: int) -> None:
        body = {"key": "team0:thing0:1", "app": "app1", "rate": "5000/s", "for": "10m", "because": "measured"}
        keyrail.post("/remedies", body)
        keyrail.post(f"/remedies/{turn + 1}", {}, "DELETE")

    def switch(turn: int) -> None:
        for way in ("on", "off"):
            keyrail.post("/policy/kill-switch", {"switch": way, "for": "10m", "because": f"measured {turn}"})

    found = []
    for name, change in (("reloads", reload), ("remedies", cap), ("turns of the kill switch", switch)):

        def act(change: Callable[[int], None] = change) -> None:
            for turn in range(times):
                change(turn)
                time.sleep(0.2)

        quiet, longest = _longest_waits(keyrail, act)
        what = f"{times} {name} with {APPS} apps and {PATTERNS} patterns"
        found.append(Measured(f"longest wait of a client during {what}", longest, "ms", _GOAL))
        found.append(Measured("longest wait for as long, while nothing happens", quiet, "ms", None))
    return found


def _arrivals(keyrail: _Keyrail, redis_port: int) -> Measured:
    def act() -> None:
        for i in range(10):
            with keyrail.client(redis_port, f"app{i}"):
                time.sleep(0.05)

    return Measured(
        "longest wait of a client while another app's first client comes", _longest_waits(keyrail, act)[1], "ms", _GOAL
    )


def _longest_waits(keyrail: _Keyrail, act: Callable[[], None]) -> tuple[float, float]:
    """The longest wait of a client in milliseconds: during an equally long idle time, and while ``act`` runs."""
    pids = [os.getpid(), *kernel.process_tree(keyrail.program.pid), keyrail.redis_pid]
    with socket.create_connection(("127.0.0.1", keyrail.port), 60.0) as connection:
        acting = threading.Thread(target=act)
        acting.start()
        begun = time.monotonic()
        longest = _asked(connection, acting.is_alive, pids)
        length = time.monotonic() - begun
        acting.join()
        over = time.monotonic() + length
        return _asked(connection, lambda: time.monotonic() < over, pids), longest


def _asked(connection: socket.socket, goes_on: Callable[[], bool], pids: Sequence[int]) -> float:
    longest = 0.0
    before = [kernel.queued_seconds(pid) for pid in pids]
    while goes_on():
        begun = time.perf_counter()
        connection.sendall(_GET)
        connection.recv(256)
        waited = time.perf_counter() - begun
        after = [kernel.queued_seconds(pid) for pid in pids]
        # The client waits for at most one thread of a process at a time.
        queued = sum(
            max((now[thread] - then.get(thread, 0.0) for thread in now), default=0.0)
            for then, now in zip(before, after, strict=True)
        )
        longest = max(longest, waited - queued)
        before = after
    return longest * 1000
