"""How soon a Keyrail follows a failover, measured against what this machine does at the same time.

A client beside Keyrail asks the Sentinels itself, without a pause, and writes where most of them say. It tells when
they name the new primary, and how long its slowest round took: a busy machine stops Keyrail as long as this client.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Self

from tests.engines import Engine
from tests.failover.group import RealGroup, Sentinel, Server
from tests.keyrail_process import Keyrail
from tests.resp import PATIENCE_SECONDS, Closed, Failure

GOAL_SECONDS = 1.0
SLOWEST_ROUNDS = 10
"""Keyrail may take so many rounds longer: it asks Sentinels and servers, opens connections, and its client does."""


@dataclass(slots=True)
class Pace:
    """Of one failover, by `time.monotonic()`: when most Sentinels named the new primary, when the client beside Keyrail
    had its first write there, and the seconds of its slowest round."""

    named: float
    written: float
    slowest: float

    def allowed(self) -> float:
        """The seconds from the naming that Keyrail may take."""
        return GOAL_SECONDS + SLOWEST_ROUNDS * self.slowest

    def late(self, served: float) -> float:
        """The seconds by which it has taken longer; not positive if it was in time."""
        return served - self.named - self.allowed()


@dataclass(slots=True)
class Beside:
    """The client beside Keyrail, from the begin of a failover on. Leaving the `with` block waits for its write."""

    group: RealGroup
    old: Server
    _slowest: float = 0.0
    _named: float = 0.0
    _written: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._over.set()
        assert self._thread is not None
        self._thread.join(PATIENCE_SECONDS)

    def pace(self) -> Pace:
        """What came of it, once it has ended."""
        assert self._written, "the new primary took no write"
        return Pace(self._named, self._written, self._slowest)

    def _run(self) -> None:
        while not self._written and not self._over.is_set():
            begun = time.monotonic()
            self._go_round()
            self._slowest = max(self._slowest, time.monotonic() - begun)

    def _go_round(self) -> None:
        named = [_named_by(each) for each in self.group.sentinels]
        for server in self.group.living():
            if server is not self.old and 2 * named.count(server.public) > len(named):
                self._named = self._named or time.monotonic()
                if _takes_writes(server):
                    self._written = time.monotonic()


def _named_by(sentinel: Sentinel) -> int:
    try:
        return sentinel.names()
    except (OSError, Closed):
        return 0


def _takes_writes(server: Engine) -> bool:
    try:
        with server.wire() as wire:
            return not isinstance(wire.value("SET", "beside", "1"), Failure)
    except (OSError, Closed):
        return False


def primary_of(keyrail: Keyrail) -> int | None:
    """The port of the primary that Keyrail uses."""
    routes: dict[str, list[dict[str, str]]] = json.loads(keyrail.http("/nodes")[1])["routes"]
    found = [node["address"] for nodes in routes.values() for node in nodes if node["role"] == "primary"]
    return int(found[0].rpartition(":")[2]) if found else None


def await_service(keyrail: Keyrail, new: Server) -> float:
    """Write through Keyrail, as all packaged policies allow, until the new primary has it; return when that was."""
    for number in itertools.count():
        try:
            with keyrail.wire() as wire:
                while not wire.ask("HSET", "user:1", "name", f"{new.port}:{number}").startswith(b"-"):
                    if new.do("HGET", "user:1", "name") == f"{new.port}:{number}".encode():
                        return time.monotonic()
        except (OSError, Closed):
            continue
    raise AssertionError("it counts on")
