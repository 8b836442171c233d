"""A row of the table of faults in docs/operations.md, and what it takes to make it true or false."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.black_hole import BlackHole
from tests.conftest import kind_named
from tests.engines import Engine
from tests.keyrail_process import Keyrail, packaged_policy
from tests.resp import Closed, pack

KEY = "user:1:name"


class Stage:
    """A Redis, and a Keyrail before it. ``stack`` closes both at the end, the last one first."""

    def __init__(self, stack: ExitStack, policy: str) -> None:
        self.stack = stack
        self.policy = policy if policy == "none" else packaged_policy(f"{policy}.yaml")
        self.key = KEY
        self.injected = 0.0

    def begin(self, upstream: str, *extra: str, variables: dict[str, str] | None = None) -> None:
        """Start the Keyrail."""
        self.keyrail = Keyrail(upstream, policy=self.policy, extra=extra, variables=variables)
        self.stack.callback(self.keyrail.close)
        self.workers = self.keyrail.pids()[1:]

    def new_engine(self, options: dict[str, str] | None = None) -> Engine:
        engine = Engine(kind_named("valkey-9.1"), options)
        self.stack.callback(engine.close)
        return engine

    def readyz(self, text: str, status: int = 503) -> bool:
        found, body = self.keyrail.http("/readyz")
        return found == status and text in body

    def said(self, text: str) -> bool:
        """Whether the log has this."""
        return text in self.keyrail.stderr

    def gets(self, *argv: str) -> str:
        """What a new client gets for this command: `a reply`, `waits`, `closed`, or the first word of an error."""
        try:
            with self.keyrail.wire() as wire:
                wire.send(pack(*argv))
                if wire.silent(3.0):
                    return "waits"
                frame = wire.frame()
        except (Closed, ConnectionError):
            return "closed"
        return frame[1:].split()[0].decode() if frame.startswith(b"-") else "a reply"

    def get(self) -> tuple[str, str]:
        """What clients get for a read and for a write."""
        return self.gets("GET", self.key), self.gets("SET", self.key, "v")


class OneRedis(Stage):
    """``network`` is between the two."""

    def __init__(self, stack: ExitStack, policy: str, *extra: str, options: dict[str, str] | None = None) -> None:
        super().__init__(stack, policy)
        self.engine = self.new_engine(options)
        self.network = stack.enter_context(BlackHole(self.engine.port))
        self.begin(self.network.url, *extra)


S = TypeVar("S", bound=Stage)


def staged(make: Callable[[ExitStack, str, Path], S]) -> Callable[[str, Path], AbstractContextManager[S]]:
    """A stage of this kind for a policy, with a folder of its own; closed at its end."""

    @contextmanager
    def new(policy: str, folder: Path) -> Iterator[S]:
        with ExitStack() as stack:
            yield make(stack, policy, folder)

    return new


one_redis = staged(lambda stack, policy, _: OneRedis(stack, policy))


@dataclass(frozen=True)
class Fault(Generic[S]):
    """One row. ``seconds`` is within which it is ``seen``; 0 if only clients see it."""

    text: str
    where: str
    seconds: float
    hurt: str
    hurt_strict: str
    stage: Callable[[str, Path], AbstractContextManager[S]]
    inject: Callable[[S], object]
    mend: Callable[[S], object]
    seen: Callable[[S], bool] = lambda stage: stage.readyz("ready", 200)

    @property
    def row(self) -> str:
        """As the page has it."""
        within = f"{self.seconds:g} s" if self.seconds else "–"
        return f"| {self.text} | {self.where} | {within} | {self.hurt} | {self.hurt_strict} |"


AnyFault = Fault[Any]


def as_before(_stage: Stage) -> None:
    """Nothing is to be mended."""


def lasts(stage: Stage, seconds: float) -> bool:
    """Whether the fault is as old as that."""
    return time.monotonic() - stage.injected > seconds
