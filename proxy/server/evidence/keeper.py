"""Keeps the evidence of a process group: every few seconds a thread writes what is new, so no event loop waits for it.

What cannot be kept (a full disk, a locked file) waits in memory, bounded, until it can be. The log says so once, and
``keyrail_evidence_kept`` is 0 meanwhile. If the file cannot even be opened, evidence is kept in memory, and opening is
tried again at each write: what was counted in memory is written then.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from proxy.net.config.background_thread import BackgroundThread
from proxy.policy.model import Policy
from proxy.server.evidence.group_evidence import GroupEvidence, Pending
from proxy.server.evidence.memory_store import MemoryStore
from proxy.server.evidence.model import REMOVED, Batch, Evidence, EvidenceError, EvidenceStore, RuleVersion
from proxy.server.evidence.policy_facts import Facts, facts_of
from proxy.server.notices import Level, notice

KEEP_SECONDS = 10.0
DAYS = 30
MEMORY_BYTES = 16 << 20
"""The most bytes of evidence without a state folder."""
READ_SECONDS = 30.0
_ENDING_SECONDS = 5.0
_JUMP_SECONDS = 5.0
"""A clock that is off by more has jumped: a new stretch of watching begins."""
_WAITING = "rows that wait until they can be kept"
_LATE_SECONDS = 60.0
"""After so long without a write, evidence counts as not kept: its disk may hang."""


class Watched(Protocol):
    """The workers, as the keeper sees them."""

    evidence: GroupEvidence
    policies: tuple[Policy, ...]
    policies_since: float
    """When these came into force, in seconds since the epoch."""


class EvidenceKeeper:
    """Keeps what the workers have seen in a store, which `open_store` opens. If it `waits`, a predecessor has the store
    at first."""

    def __init__(
        self,
        workers: Watched,
        routes: Sequence[str],
        open_store: Callable[[], EvidenceStore],
        waits: bool = False,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workers = workers
        self._routes = routes
        self._open_store = open_store
        self._clock, self._steady = clock, steady
        self._began = self._until = clock()
        self._until_steady = steady()
        self._store: EvidenceStore | None = None
        self._thread = BackgroundThread("keeps evidence")
        self._keeping = asyncio.Lock()
        self._policies: tuple[Policy, ...] = ()
        self._in_force: list[RuleVersion] = []
        self._versions: list[RuleVersion] = []
        self._told_lost = Counter[str]()
        self.facts: dict[str, Facts] = {}
        """By route: what reports have to know of the policies in force."""
        self._written = True
        self._last = steady()
        self.in_memory = ""
        """Why evidence is kept in memory meanwhile; empty if it is not."""
        self._released = False
        self._waits = waits
        self._opens_at = math.inf

    @property
    def kept(self) -> bool:
        """Whether what is seen is written, where it belongs."""
        return self._written and not self.in_memory and self._steady() - self._last < _LATE_SECONDS

    def begin(self) -> None:
        """The policies are in force, and clients are served."""
        self._last = self._steady()
        self._opens_at = self._last + (KEEP_SECONDS if self._waits else 0.0)

    async def run(self) -> None:
        """Keep what is new, again and again."""
        self.begin()
        while True:
            await self.keep()
            await asyncio.sleep(KEEP_SECONDS)

    async def keep(self) -> None:
        """Write what is new. Whoever waits for it may give up; the write goes on."""
        await asyncio.shield(self._keep())

    async def _keep(self) -> None:
        async with self._keeping:
            if self._released or self._steady() < self._opens_at:
                return
            pending: Pending = {}
            try:
                await self._follow_policies()
                if self._store is None or self.in_memory:
                    await self._open()
                batch, pending = self._batch()
                # Without a time limit: a write that comes later all the same would be there twice.
                await self._thread.run(partial(self._add, batch))
            except Exception as error:  # noqa: BLE001 - evidence is kept again later, whatever was wrong with it
                self._workers.evidence.give_back(pending)
                if self._written:
                    why = str(error) if isinstance(error, EvidenceError) else repr(error)
                    notice(f"evidence waits in memory until it can be kept: {why}", Level.WARNING)
                self._written = False
                return
            self._versions = []
            self._told_lost.update(batch.lost)
            if not self._written:
                notice("evidence is kept again", Level.INFO)
            self._written = True
            self._last = self._steady()

    def _add(self, batch: Batch) -> None:
        assert self._store is not None, "it was opened"
        self._store.add(batch)

    async def _open(self) -> None:
        meanwhile = self._store
        try:
            self._store, known, counted = await self._thread.run(partial(self._opened, meanwhile))
        except EvidenceError as error:
            if str(error) != self.in_memory:
                notice(f"evidence is kept in memory until its file can be used: {error}", Level.WARNING)
            self.in_memory = str(error)
            self._store = meanwhile or MemoryStore(MEMORY_BYTES, DAYS)
            return
        began = counted.spans[0][0] if counted.spans else self._began
        self._tell_removed(_names(known) - _names(counted), began)
        if self.in_memory:
            notice("evidence is kept in its file again, with what was counted in memory", Level.INFO)
        self.in_memory = ""

    def _opened(self, meanwhile: EvidenceStore | None) -> tuple[EvidenceStore, Evidence, Evidence]:
        """The store with what was kept `meanwhile`; what it knew of this hour before, and what was added."""
        known = counted = Evidence()
        store = self._open_store()
        try:
            with suppress(EvidenceError):
                known = store.read(self._clock())
            if meanwhile is not None:
                counted = meanwhile.read(0.0)
                for began, ended in counted.spans:
                    store.add(Batch(began, ended, [], [], {}))
                # Last, so that all of it can be added again if it fails.
                rows = [(hour, route, its) for (hour, route), its in counted.hours.items()]
                store.add(Batch(self._began, self._until, rows, counted.rules, counted.lost))
        except BaseException:
            store.close()
            raise
        return store, known, counted

    def _batch(self) -> tuple[Batch, Pending]:
        now, steady = self._clock(), self._steady()
        if now < self._until or abs((now - self._until) - (steady - self._until_steady)) > _JUMP_SECONDS:
            self._began = now
        self._until, self._until_steady = now, steady
        pending = self._workers.evidence.take()
        lost = self._workers.evidence.lost - self._told_lost
        rows = [(hour, route, found) for (hour, route), found in pending.items()]
        return Batch(self._began, now, rows, [*self._versions, *self._in_force], dict(lost)), pending

    async def _follow_policies(self) -> None:
        if self._policies is self._workers.policies:
            return
        policies = self._workers.policies
        facts = await self._thread.run(lambda: [facts_of(policy) for policy in policies])
        before = self._rules()
        self.facts = dict(zip(self._routes, facts, strict=True))
        # The first policies are in force from the beginning.
        now = self._workers.policies_since if self._policies else self._began
        self._policies = policies
        self._in_force = [
            RuleVersion(route, rule["rule"], rule["digest"], now)
            for route, its in self.facts.items()
            for rule in its["rules"]
        ]
        self._tell_removed(before, now)

    def _rules(self) -> set[tuple[str, str]]:
        return {(route, rule["rule"]) for route, its in self.facts.items() for rule in its["rules"]}

    def _tell_removed(self, before: set[tuple[str, str]], now: float) -> None:
        # A rule that comes back has not judged what came in between.
        self._versions += [RuleVersion(route, rule, REMOVED, now) for route, rule in sorted(before - self._rules())]

    async def read(self, since: float) -> Evidence:
        """The evidence of the hour of this time and of those after it, up to now. Raises EvidenceError."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                await self.keep()
        except TimeoutError:
            raise EvidenceError(f"the evidence could not be written in {READ_SECONDS:g} s") from None
        if self._store is None:
            raise EvidenceError("the process before this one still keeps the evidence: ask again in a few seconds")
        try:
            found = await self._thread.run(partial(self._store.read, since), READ_SECONDS)
        except TimeoutError:
            raise EvidenceError(f"the evidence could not be read in {READ_SECONDS:g} s") from None
        waiting = self._workers.evidence.waiting
        if waiting and not self._written:
            found.lost[_WAITING] = waiting
        return found

    async def release(self) -> None:
        """Write what there is, and then nothing any more: a successor keeps evidence from now on, or nobody does."""
        if self._released:
            return
        try:
            async with asyncio.timeout(_ENDING_SECONDS):
                await self.keep()
        except TimeoutError:
            notice("the last evidence could not be kept in time", Level.WARNING)
        self._released = True
        if self._store is not None:
            with suppress(TimeoutError, EvidenceError):
                await self._thread.run(self._store.close, _ENDING_SECONDS)


def _names(found: Evidence) -> set[tuple[str, str]]:
    return {(each.route, each.rule) for each in found.rules}
