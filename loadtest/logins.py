"""``logins``: what the login of a short-lived client costs, as in PHP, where each request has its own client.

A client connects, sends AUTH, reads the reply, sends one GET, reads the reply and closes; without AUTH it begins with
the GET. The ways are listeners of one Keyrail, which itself logs in as the same user. Redis counts its connections.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import redis as redis_py

from loadtest import connects, targets
from loadtest.kernel import cpu_seconds
from loadtest.processes import free_port
from loadtest.quick import Course
from loadtest.targets import Redis, Target

WITHOUT = "no AUTH"
UPSTREAM = "AUTH, Redis decides"
FILE = "AUTH, a file decides"
_PASSWORD = secrets.token_hex(16)
_AUTH = b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%b\r\n" % (len(_PASSWORD), _PASSWORD.encode())
_OK = b"+OK\r\n"


@dataclass(frozen=True, slots=True)
class Sample(connects.Sample):
    """The same, with the number of clients, and the number of connections that Redis got meanwhile."""

    clients: int
    upstream_connections: int


@contextlib.contextmanager
def all_ways(redis_program: str, program: list[str]) -> Iterator[tuple[Redis, list[Target]]]:
    """A Redis with a password, and the listeners in front of it, ended with the block."""
    with contextlib.ExitStack() as stack:
        folder, redis = stack.enter_context(targets.preloaded(redis_program))
        with redis_py.Redis(port=redis.port) as connection:
            connection.config_set("requirepass", _PASSWORD)
        passwords = folder / "passwords"
        passwords.write_text(_PASSWORD, encoding="utf-8")
        ports = {UPSTREAM: free_port(), FILE: free_port()}
        extra = ["--upstream", f"redis://:{_PASSWORD}@127.0.0.1:{redis.port}"]
        extra += ["--listen", f"redis://127.0.0.1:{ports[UPSTREAM]}?client_auth=upstream"]
        extra += ["--listen", f"redis://127.0.0.1:{ports[FILE]}?client_password_file={passwords}"]
        first = stack.enter_context(targets.keyrail(WITHOUT, program, redis, "none", *extra))
        yield redis, [first, *(Target(name, port, first.pid, first.about) for name, port in ports.items())]


def rounds(redis: Redis, ways: Sequence[Target], course: Course, say: Callable[[str], None]) -> Iterator[Sample]:
    """In each round clients come in every way, in an order that rotates."""
    with redis_py.Redis(port=redis.port, password=_PASSWORD, protocol=2) as connection:
        for number in range(course.rounds):
            for target in targets.rotated(ways, number):
                sample = _measure(connection, target, number, course)
                told = f"{sample.proxy_cpu:.1f} µs, {sample.rate:,.0f}/s, {sample.upstream_connections} connections"
                say(f"{number + 1}/{course.rounds} {target.name}: {told}")
                yield sample


def _measure(connection: redis_py.Redis, target: Target, number: int, course: Course) -> Sample:
    assert target.pid is not None
    batches = max(2, round(connects.CLIENTS * course.scale / connects.BATCH))
    first = () if target.name == WITHOUT else ((_AUTH, _OK),)
    come_and_go = partial(connects.come_and_go, target.port, first)
    with course.placement.loading():
        come_and_go()
        before, got, began = cpu_seconds(target.pid), _connections(connection), time.perf_counter()
        for _ in range(batches):
            come_and_go()
        seconds = time.perf_counter() - began
        used = cpu_seconds(target.pid) - before
    clients = batches * connects.BATCH
    return Sample(target.name, number, used / clients * 1e6, clients / seconds, clients, _connections(connection) - got)


def _connections(connection: redis_py.Redis) -> int:
    return int(connection.info("stats")["total_connections_received"])
