"""The targets: the same private Redis, reached directly, through nutcracker, and through Keyrail."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis as redis_py
import yaml

from loadtest import workloads
from loadtest.processes import StartError, free_port, running

REPOSITORY = Path(__file__).resolve().parent.parent
BENCH_POLICY = REPOSITORY / "policies" / "bench.yaml"

DIRECT = "direct"
NUTCRACKER = "nutcracker"
KEYRAIL_NONE = "keyrail none"
KEYRAIL_BENCH = "keyrail bench"


@dataclass(frozen=True, slots=True)
class Target:
    """One way to Redis. ``pid`` is the proxy's (None for direct), ``about`` its description in the report."""

    name: str
    port: int
    pid: int | None
    about: str
    stamps_lifetimes: bool = False
    """The target adds a lifetime to a SET without one."""


@dataclass(frozen=True, slots=True)
class Redis:
    """The server behind all targets."""

    port: int
    pid: int
    version: str

    @property
    def url(self) -> str:
        """What Keyrail is told as its upstream."""
        return f"redis://127.0.0.1:{self.port}"


@contextlib.contextmanager
def redis_server(folder: Path, program: str, *options: str) -> Iterator[Redis]:
    """A Redis without persistence, on its own port."""
    port = free_port()
    argv = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    argv += ["--dir", str(folder), "--maxclients", "20000", *options]
    with running(argv) as server:
        server.wait_for_port(port)
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        yield Redis(port, server.pid, " ".join(said.split()[:3]))


@contextlib.contextmanager
def preloaded(program: str) -> Iterator[tuple[Path, Redis]]:
    """A Redis with the keys of GET and SET, and a folder that is removed after the block."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        redis = stack.enter_context(redis_server(folder, program))
        with redis_py.Redis(port=redis.port, protocol=2) as connection:
            workloads.preload(connection)
        yield folder, redis


def as_written(text: str) -> dict[str, Any]:
    """A policy with every scalar as text, so that ``off`` stays a word."""
    policy: dict[str, Any] = yaml.BaseLoader(text).get_single_data()
    return policy


def direct(redis: Redis) -> Target:
    """Redis without a proxy."""
    return Target(DIRECT, redis.port, None, redis.version)


@contextlib.contextmanager
def nutcracker(folder: Path, redis: Redis) -> Iterator[Target | None]:
    """Twemproxy with one connection to Redis, its default; None if it is not installed."""
    program = shutil.which("nutcracker") or shutil.which("nutcracker", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        yield None
        return
    port = free_port()
    config = folder / "nutcracker.yml"
    config.write_text(
        f"bench:\n  listen: 127.0.0.1:{port}\n  redis: true\n  hash: fnv1a_64\n  distribution: ketama\n"
        f"  preconnect: true\n  auto_eject_hosts: false\n  servers:\n   - 127.0.0.1:{redis.port}:1\n"
    )
    argv = [program, "-c", str(config), "-s", str(free_port()), "-a", "127.0.0.1", "-v", "4"]
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    with running(argv) as proxy:
        proxy.wait_for_port(port)
        yield Target(NUTCRACKER, port, proxy.pid, (said.stdout + said.stderr).splitlines()[0].removeprefix("This is "))


def rotated(ways: Sequence[Target], number: int) -> Sequence[Target]:
    """The targets in the order of round ``number``: each round begins with the next one."""
    first = number % len(ways)
    return (*ways[first:], *ways[:first])


def keyrail_program() -> list[str]:
    """The ``keyrail`` installed beside this interpreter, else this source tree."""
    installed = Path(sys.executable).parent / "keyrail"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "proxy"]


@contextlib.contextmanager
def keyrail(
    name: str,
    program: list[str],
    redis: Redis | str,
    policy: str,
    *extra: str,
    workers: int = 1,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Target]:
    """Keyrail with one worker, or more, before a Redis or the upstream of a URL; ``policy`` is a file, or "none"."""
    port = free_port()
    argv = [*program, "serve", "--listen", f"redis://127.0.0.1:{port}"]
    argv += ["--upstream", redis if isinstance(redis, str) else redis.url, "--policy", policy]
    argv += ["--admin", "off", "--workers", str(workers), *extra]
    with running(argv, cwd=REPOSITORY, env=variables) as proxy:
        ready = proxy.wait_for_line("ready on")
        proxy.wait_for_port(port)
        form = next((form for form in ("compiled", "plain") if form in ready), None)
        if form is None:
            raise StartError(f"{name}: the ready line names neither compiled nor plain: {ready}")
        yield Target(name, port, proxy.pid, form, stamps_lifetimes=policy == str(BENCH_POLICY))
