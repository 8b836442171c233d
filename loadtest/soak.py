"""``soak``: memory, open files and latency of each process over an hour, under a light load on a million keys, with a
reload of the policy each minute."""

import asyncio
import contextlib
import os
import random
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import hiredis

from loadtest import kernel, targets
from loadtest.benchmark import RunError
from loadtest.processes import free_port
from loadtest.targets import REPOSITORY, Target

_WARM_UP = 0.1
"""The part of the time for warming up: workers and connections start, pools of the allocator fill."""
_BATCHES = 20
"""Each second."""
_WRITES = 0.2
_VALUE = b"v" * 64
_GROWTH_MB = 5.0
"""What a worker may grow by, however often the policy is reloaded."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The length, the load and the samples: ``commands`` per second in all, a sample ``every`` this many seconds, a
    reload each ``reload_every``."""

    seconds: float = 3600.0
    commands: int = 2000
    clients: int = 20
    keys: int = 1_000_000
    every: float = 30.0
    traffic_memory: int = 64
    reload_every: float = 60.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The state after ``at`` seconds: each process's memory (bytes) and open files; latencies in milliseconds.

    ``load`` is the load average of the machine over the last minute, including this load and all other work.
    """

    at: float
    memory: dict[str, int]
    files: dict[str, int]
    commands: int
    p50: float
    p99: float
    worst: float
    load: float


@dataclass(slots=True)
class Load:
    """The latencies and errors of clients since the last sample."""

    latencies: list[float] = field(default_factory=list)
    commands: int = 0
    wrong: str = ""


def run(program: list[str], redis_program: str, plan: Plan, say: Callable[[str], None]) -> tuple[str, list[Sample]]:
    """Keyrail's form (compiled or plain) and the samples. Raises RunError if a reply is wrong."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        redis = stack.enter_context(targets.redis_server(folder, redis_program))
        admin = f"127.0.0.1:{free_port()}"
        policy = folder / "policy.yaml"
        text = (REPOSITORY / "policies" / "observe.yaml").read_text()
        policy.write_text(text)
        options = ("--watch", "off", "--workers", "2", "--admin", admin, "--traffic-memory", f"{plan.traffic_memory}MB")
        target = stack.enter_context(targets.keyrail("keyrail observe", program, redis, str(policy), *options))
        load = Load()
        stack.enter_context(_loaded(target.port, plan, load))
        stack.enter_context(_reloaded(admin, policy, text, plan, load))
        return target.about, list(_samples(target, plan, load, say))


def _samples(target: Target, plan: Plan, load: Load, say: Callable[[str], None]) -> Iterator[Sample]:
    assert target.pid is not None
    began = time.monotonic()
    commands = 0
    for number in range(1, max(4, int(plan.seconds / plan.every)) + 1):
        time.sleep(max(0.0, began + number * plan.every - time.monotonic()))
        if load.wrong:
            raise RunError(load.wrong)
        latencies, load.latencies = load.latencies, []
        if len(latencies) < 2:
            raise RunError(f"no reply for {plan.every:g} s")
        cuts = statistics.quantiles(latencies, n=100, method="inclusive")
        done, commands = load.commands - commands, load.commands
        processes = dict(zip(_names(target.pid), kernel.process_tree(target.pid), strict=True))
        sample = Sample(
            at=round(time.monotonic() - began, 1),
            memory={name: kernel.resident_of(pid) for name, pid in processes.items()},
            files={name: kernel.open_files(pid) for name, pid in processes.items()},
            commands=done,
            p50=cuts[49] * 1000,
            p99=cuts[98] * 1000,
            worst=max(latencies) * 1000,
            load=os.getloadavg()[0],
        )
        say(_row(sample))
        yield sample


def _names(pid: int) -> list[str]:
    return ["supervisor", *(f"worker {number}" for number in range(len(kernel.process_tree(pid)) - 1))]


def _row(sample: Sample) -> str:
    cells = [f"{sample.at:.0f} s"]
    cells += [f"{name} {size / 1e6:.1f} MB, {sample.files[name]} files" for name, size in sample.memory.items()]
    cells.append(f"{sample.commands} commands")
    cells.append(f"p50 {sample.p50:.2f}, p99 {sample.p99:.2f}, worst {sample.worst:.1f} ms")
    cells.append(f"load average {sample.load:.1f}")
    return "; ".join(cells)


@contextlib.contextmanager
def _loaded(port: int, plan: Plan, load: Load) -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_clients(port, plan, load, ended)), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(15.0)


@contextlib.contextmanager
def _reloaded(admin: str, policy: Path, text: str, plan: Plan, load: Load) -> Iterator[None]:
    """Meanwhile another policy comes into force again and again: one that says the same, in other words."""
    ended = threading.Event()

    def reload() -> None:
        generation = 0
        while not ended.wait(plan.reload_every) and not load.wrong:
            generation += 1
            policy.write_text(text.replace("because: ", f"because: {generation} times, ", 1))
            url = f"http://{admin}/policy/reload"
            try:
                with urllib.request.urlopen(urllib.request.Request(url, b"{}", method="POST"), timeout=60.0) as answer:
                    answer.read()
            except OSError as error:
                load.wrong = f"reload {generation} failed: {error}"

    thread = threading.Thread(target=reload, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(70.0)


async def _clients(port: int, plan: Plan, load: Load, ended: threading.Event) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(plan.clients):
            group.create_task(_client(number, port, plan, load, ended))


async def _client(number: int, port: int, plan: Plan, load: Load, ended: threading.Event) -> None:
    chance = random.Random(number)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(chance.random() / _BATCHES)
    pause = 1.0 / _BATCHES
    size = max(1, round(plan.commands / plan.clients / _BATCHES))
    replies = hiredis.Reader()
    while not ended.is_set() and not load.wrong:
        began = time.monotonic()
        writes = [chance.random() < _WRITES for _ in range(size)]
        writer.write(b"".join(_command(chance.randrange(plan.keys), write) for write in writes))
        for write in writes:
            while (reply := replies.gets()) is False:
                data = await reader.read(1 << 16)
                if not data:
                    load.wrong = "Keyrail has closed a client"
                    return
                replies.feed(data)
            if reply != b"OK" if write else reply not in {None, _VALUE}:
                load.wrong = f"a {'SET' if write else 'GET'} was answered with {reply!r}"
        load.latencies.append(time.monotonic() - began)
        load.commands += size
        await asyncio.sleep(max(0.0, began + pause - time.monotonic()))
    writer.close()


def _command(key: int, write: bool) -> bytes:
    name = b"user:%d:profile" % key if key % 2 else b"stock:%d" % key
    if write:
        return b"*5\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$64\r\n%b\r\n$2\r\nEX\r\n$3\r\n600\r\n" % (len(name), name, _VALUE)
    return b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(name), name)


def verdict(samples: Sequence[Sample], traffic_memory: int) -> list[tuple[str, str, bool]]:
    """Each check, its result, and whether it passed.

    After a tenth of the time, the last quarter is compared with the first. The supervisor may grow by the memory that
    its statistics are allowed, a worker by 5 MB.
    """
    settled = list(samples[int(len(samples) * _WARM_UP) :])
    quarter = max(1, len(settled) // 4)
    first, last = settled[:quarter], settled[-quarter:]
    found = []
    for name in samples[-1].memory:
        before = statistics.mean(each.memory.get(name, 0) for each in first) / 1e6
        most = max(each.memory.get(name, 0) for each in last) / 1e6
        start = samples[0].memory.get(name, 0) / 1e6
        bound = start + traffic_memory * 1.048576 if name == "supervisor" else before + _GROWTH_MB
        found.append((f"memory of the {name}", f"{start:.1f} → {most:.1f} MB, at most {bound:.1f} MB", most <= bound))
        files = samples[-1].files[name] - settled[0].files.get(name, 0)
        found.append((f"open files of the {name}", f"{samples[-1].files[name]}, {files:+d}", abs(files) <= 5))
    before, after = (statistics.median(each.p99 for each in part) for part in (first, last))
    found.append(
        ("p99 of a batch", f"{before:.2f} → {after:.2f} ms, at most twice", after <= max(2 * before, before + 1))
    )
    return found


def markdown(samples: Sequence[Sample], about: dict[str, str], traffic_memory: int) -> str:
    """The page of a run: the verdict, then about thirty rows."""
    lines = ["# Soak", "", *(f"- {name}: {text}" for name, text in about.items()), ""]
    lines += ["| | figure | |", "|---|---|---|"]
    lines += [
        f"| {what} | {text} | {'holds' if held else '**does not hold**'} |"
        for what, text, held in verdict(samples, traffic_memory)
    ]
    names = list(samples[-1].memory)
    lines += ["", "Memory in MB, open files, latency of a batch in milliseconds, load average of the machine.", ""]
    lines.append(f"| after | {' | '.join(names)} | commands | p50 | p99 | worst | load |")
    lines.append("|---:" * (len(names) + 6) + "|")
    step = -(-len(samples) // 30)
    for each in samples[step - 1 :: step]:
        cells = [f"{each.memory.get(name, 0) / 1e6:.1f}, {each.files.get(name, 0)}" for name in names]
        cells += [str(each.commands), f"{each.p50:.2f}", f"{each.p99:.2f}", f"{each.worst:.1f}", f"{each.load:.1f}"]
        lines.append(f"| {each.at / 60:.1f} min | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
