"""docs/operations.md, the table of faults: each is injected under three policies, and its row is true.

A row says where and how soon a fault is seen, and what a client gets that sends a read, or a write, once it is. When
the fault is mended, all is as before.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.black_hole import BlackHole
from tests.conftest import rest_is_long
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.readme.blocks import DOCS
from tests.resp import Closed, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay tells of no fault")

POLICIES = Path(__file__).parents[2] / "policies"
SLOWER = 5.0
"""How much longer than its row says it may take, on a busy machine."""
LOOP = "while true do end"


class Stage:
    """A Redis, what lies before it, and a Keyrail."""

    def __init__(self, engine: Engine, network: BlackHole, keyrail: Keyrail, new_engine: Callable[..., Engine]) -> None:
        self.engine = engine
        self.network = network
        self.keyrail = keyrail
        self.new_engine = new_engine
        self.workers = keyrail.pids()[1:]

    def readyz(self, text: str, status: int = 503) -> bool:
        found, body = self.keyrail.http("/readyz")
        return found == status and text in body

    def gets(self, *argv: str) -> str:
        """What a new client gets for this command: `a reply`, `waits`, `closed`, or the first word of an error."""
        try:
            with self.keyrail.wire() as wire:
                wire.send(pack(*argv))
                if wire.silent(1.5):
                    return "waits"
                frame = wire.frame()
        except (Closed, ConnectionError):
            return "closed"
        return frame[1:].split()[0].decode() if frame.startswith(b"-") else "a reply"

    def get(self) -> tuple[str, str]:
        """What clients get for a read and for a write."""
        return self.gets("GET", "user:1:name"), self.gets("SET", "user:1:name", "v")


@dataclass(frozen=True)
class Fault:
    """One row. ``seconds`` is within which it is ``seen``; 0 if nothing is to be seen."""

    text: str
    where: str
    seconds: float
    hurt: str
    hurt_strict: str
    inject: Callable[[Stage], object]
    mend: Callable[[Stage], object]
    seen: Callable[[Stage], bool] = lambda stage: stage.readyz("ready", 200)

    @property
    def row(self) -> str:
        """As the page has it."""
        within = f"{self.seconds:g} s" if self.seconds else "–"
        return f"| {self.text} | {self.where} | {within} | {self.hurt} | {self.hurt_strict} |"


def end(stage: Stage) -> None:
    stage.engine.kill()


def end_workers(stage: Stage) -> None:
    for pid in stage.workers:
        os.kill(pid, signal.SIGKILL)


def begin_replica(stage: Stage) -> None:
    primary = stage.new_engine(options={"repl-diskless-sync-delay": "0"})
    stage.engine.do("REPLICAOF", "127.0.0.1", primary.port)
    stage.engine.await_info("replication", "master_link_status", "up")


def begin_script(stage: Stage) -> None:
    stage.engine.do("CONFIG", "SET", "busy-reply-threshold", "50")
    stage.engine.wire().send(pack("EVAL", LOOP, "0"))


def has_new_worker(stage: Stage) -> bool:
    now = stage.keyrail.pids()[1:]
    return bool(now) and now != stage.workers and stage.readyz("ready", 200)


def as_before(_stage: Stage) -> None:
    """Nothing is to be mended."""


FAULTS = (
    Fault(
        "Redis dies",
        "`/readyz`: 503; log",
        2,
        "closed; closed",
        "DENIED; DENIED",
        end,
        lambda stage: stage.engine.start(),
        lambda stage: stage.readyz("onnection"),
    ),
    Fault(
        "Redis is frozen",
        "`/readyz`: 503; log",
        7,
        "waits; waits",
        "DENIED; DENIED",
        lambda stage: stage.engine.freeze(),
        lambda stage: stage.engine.thaw(),
        lambda stage: stage.readyz("Redis has not answered since"),
    ),
    Fault(
        "the network swallows the open connections",
        "log",
        7,
        "a reply; a reply",
        "a reply; a reply",
        lambda stage: stage.network.swallow(),
        as_before,
        lambda stage: "connections without a reply" in stage.keyrail.stderr,
    ),
    Fault(
        "Redis runs an endless script",
        "the replies",
        0,
        "BUSY; BUSY",
        "DENIED; DENIED",
        begin_script,
        lambda stage: eventually(lambda: stage.engine.wire().ask("SCRIPT", "KILL") == b"+OK\r\n"),
    ),
    Fault(
        "the server becomes a replica",
        "`/readyz`: 200 with a line; log",
        6,
        "a reply; READONLY",
        "a reply; READONLY",
        begin_replica,
        lambda stage: stage.engine.do("REPLICAOF", "NO", "ONE"),
        lambda stage: stage.readyz("it is a replica", 200),
    ),
    Fault(
        "writes are paused at Redis (`CLIENT PAUSE … WRITE`)",
        "the replies",
        0,
        "a reply; waits",
        "a reply; waits",
        lambda stage: stage.engine.do("CLIENT", "PAUSE", "600000", "WRITE"),
        lambda stage: stage.engine.do("CLIENT", "UNPAUSE"),
    ),
    Fault(
        "a worker is killed",
        "log",
        3,
        "a reply; a reply",
        "a reply; a reply",
        end_workers,
        as_before,
        has_new_worker,
    ),
)


QUICK = "Redis runs an endless script"


@pytest.mark.parametrize("fault", rest_is_long(QUICK, *(fault.text for fault in FAULTS if fault.text != QUICK)))
@pytest.mark.parametrize("policy", rest_is_long("strict", "none", "default"))
def test_each_row_is_true(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], fault: str, policy: str
) -> None:
    (row,) = [each for each in FAULTS if each.text == fault]
    engine = new_engine()
    with BlackHole(engine.port) as network:
        chosen = policy if policy == "none" else POLICIES / f"{policy}.yaml"
        keyrail = new_keyrail(network.url, policy=chosen)
        stage = Stage(engine, network, keyrail, new_engine)
        well = ("a reply", "a reply")
        eventually(lambda: stage.get() == well)
        row.inject(stage)
        injected = time.monotonic()
        eventually(lambda: row.seen(stage))
        if row.seconds:
            assert time.monotonic() - injected < row.seconds + SLOWER
        hurt = row.hurt_strict if policy == "strict" else row.hurt
        eventually(lambda: "; ".join(stage.get()) == hurt)
        row.mend(stage)
        eventually(lambda: stage.get() == well)
        eventually(lambda: keyrail.http("/readyz") == (200, "ready\n"))
        assert keyrail.metric("keyrail_out_of_step_total") == 0


def test_the_page_has_these_rows() -> None:
    table = (DOCS / "operations.md").read_text("utf-8").partition("| fault | seen in |")[2].partition("\n\n")[0]
    assert table.splitlines()[2:] == [fault.row for fault in FAULTS]
