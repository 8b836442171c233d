"""Adds up what is found of each key, in bounded memory: the lightest patterns become one, ``OTHER``."""

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from proxy.commands.slots import SLOTS, slot_of
from proxy.rules.stored import StoredFault, StoredKey
from proxy.server.stored.model import (
    ENFORCED,
    OTHER,
    TTL_BOUNDS,
    FaultOf,
    FaultRow,
    FindingRow,
    FormRow,
    Kind,
    LargeKey,
    NodeFigures,
    PatternRow,
    Place,
    Scan,
    SlotKeys,
    ValueForm,
    add_row,
    in_database,
)
from proxy.traffic.redaction import of_tenant
from proxy.traffic.tag_spread import TagSpread

MOST_PATTERNS = 2_000
MOST_FINDINGS = 2_000
MOST_EXEMPLARS = 5
MOST_LARGEST = 20
MOST_SLOTS = 20
_COMPRESSED = (ValueForm.OLDER_DICTIONARY, ValueForm.MISSING_DICTIONARY)


class Finding(Protocol):
    """What a rule finds wrong with a key."""

    @property
    def rule(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def excepted(self) -> bool: ...
    @property
    def fault(self) -> StoredFault: ...


class Judged(Protocol):
    """Whose a key is, and what is wrong with it."""

    @property
    def pattern(self) -> str: ...
    @property
    def app(self) -> str: ...
    @property
    def team(self) -> str: ...
    @property
    def findings(self) -> Iterable[Finding]: ...
    @property
    def form(self) -> tuple[str, ValueForm] | None: ...
    @property
    def own(self) -> tuple[bytes, str] | None: ...


class Totals:
    """The sums of all keys so far. ``show`` is how keys may be shown; ``by_slot``: it is a cluster."""

    def __init__(self, show: Callable[[bytes], str], *, by_slot: bool = False) -> None:
        self.patterns: dict[Place, PatternRow] = {}
        self.findings: dict[Kind, FindingRow] = {}
        self.faults: dict[FaultOf, FaultRow] = {}
        self.tags = TagSpread()
        self.forms: dict[str, FormRow] = {}
        self._show = show
        self._largest: list[tuple[int, int, LargeKey]] = []
        self._order = 0
        self._slot_keys = array("Q", bytes(8 * SLOTS)) if by_slot else None
        self._slot_bytes = array("Q", bytes(8 * SLOTS)) if by_slot else None

    def add(self, key: StoredKey, judged: Judged, node: NodeFigures, database: int, units: int = 1) -> None:
        """Count a key, which stands for so many units."""
        self.tags.add(key.name)
        memory = key.memory or 0
        node.counted += 1
        node.bytes += memory * units
        node.unmeasured += key.memory is None
        node.databases[database] = node.databases.get(database, 0) + units
        place, tenant = Place(judged.pattern, judged.app), self._tenant_of(judged)
        self._count(place, judged.team, key, units)

        def named() -> str:
            return in_database(self._show(key.name) + of_tenant(tenant), database)

        for found in judged.findings:
            self._find(
                Kind(found.rule, found.fault.fault, *place, found.mode, found.fault.sure), found, key, named, units
            )
        if judged.form is not None:
            self._count_form(*judged.form, key, units)
        for fault in {found.fault.fault for found in judged.findings}:
            its = [each for each in judged.findings if each.fault.fault is fault]
            self._count_fault(FaultOf(fault, judged.app), its, units)
        if key.memory is not None and (len(self._largest) < MOST_LARGEST or memory > self._largest[0][0]):
            self._keep_large(key, place, node, database, tenant)
        if self._slot_keys is not None and self._slot_bytes is not None:
            slot = slot_of(key.name)
            self._slot_keys[slot] += units
            self._slot_bytes[slot] += memory * units

    def largest(self) -> list[LargeKey]:
        """The largest keys, the largest first."""
        return [large for _, _, large in sorted(self._largest, reverse=True)]

    def heaviest_slots(self) -> list[SlotKeys]:
        """The slots of a cluster with the most bytes, or the most keys where bytes are not known."""
        if self._slot_keys is None or self._slot_bytes is None:
            return []
        weights = zip(self._slot_bytes, self._slot_keys, range(SLOTS), strict=True)
        return [SlotKeys(slot, keys, size) for size, keys, slot in heapq.nlargest(MOST_SLOTS, weights) if keys]

    def used_slots(self) -> int:
        """How many slots have keys."""
        return sum(map(bool, self._slot_keys or ()))

    def slots(self) -> bytes:
        """The sums of slots, for ``resume``."""
        return (
            b""
            if self._slot_keys is None or self._slot_bytes is None
            else (self._slot_keys + self._slot_bytes).tobytes()
        )

    def resume(self, scan: Scan, slots: bytes) -> None:
        """Go on where this scan was. Raises ValueError."""
        self.patterns, self.findings, self.faults = dict(scan.patterns), dict(scan.findings), dict(scan.faults)
        self.forms = dict(scan.forms)
        for large in scan.largest:
            self._order -= 1
            self._largest.append((large.memory, self._order, large))
        heapq.heapify(self._largest)
        if self._slot_keys is not None and self._slot_bytes is not None:
            sums = array("Q")
            sums.frombytes(slots)
            self._slot_keys, self._slot_bytes = sums[:SLOTS], sums[SLOTS:]

    def _count(self, place: Place, team: str, key: StoredKey, units: int) -> None:
        row = self.patterns.get(place)
        if row is None:
            if len(self.patterns) >= 2 * MOST_PATTERNS:
                self._fold_patterns()
            row = self.patterns[place] = PatternRow(team)
        row.keys += units
        row.types[key.type] = row.types.get(key.type, 0) + units
        if key.memory is None:
            row.unmeasured += units
        else:
            row.bytes += key.memory * units
        if key.ttl is None:
            row.without_ttl += units
        else:
            row.ttls[bisect_left(TTL_BOUNDS, key.ttl / 1000)] += units

    def _count_form(self, rule: str, form: ValueForm, key: StoredKey, units: int) -> None:
        row = self.forms.setdefault(rule, FormRow())
        for each in {form, ValueForm.COMPRESSED if form in _COMPRESSED else form}:
            setattr(row, each, getattr(row, each) + units)
        if key.stored is not None and key.members is not None:
            row.stored_bytes += key.stored * units
            row.plain_bytes += key.members * units

    def _find(self, kind: Kind, found: Finding, key: StoredKey, shown: Callable[[], str], units: int) -> None:
        row = self.findings.get(kind)
        if row is None:
            if len(self.findings) >= 2 * MOST_FINDINGS:
                self._fold_findings()
            row = self.findings[kind] = FindingRow(found.fault.text, found.fault.by)
        elif found.fault.by > row.by:
            row.text, row.by = found.fault.text, found.fault.by
        row.keys += units
        row.excepted += found.excepted * units
        row.bytes += (key.memory or 0) * units
        if len(row.exemplars) < MOST_EXEMPLARS:
            exemplar = shown()
            if exemplar not in row.exemplars:
                row.exemplars.append(exemplar)

    def _count_fault(self, of: FaultOf, found: Sequence[Finding], units: int) -> None:
        row = self.faults.setdefault(of, FaultRow())
        counted = [each for each in found if not each.excepted]
        sure = [each for each in counted if each.fault.sure]
        if any(each.mode == ENFORCED for each in sure):
            row.enforced += units
        elif sure:
            row.milder += units
        elif counted:
            row.unsure += units
        else:
            row.excepted += units

    def _tenant_of(self, judged: Judged) -> dict[str, Any] | None:
        return None if judged.own is None else {"app": judged.own[1] or None, "key": self._show(judged.own[0])}

    def _keep_large(
        self, key: StoredKey, place: Place, node: NodeFigures, database: int, tenant: dict[str, Any] | None
    ) -> None:
        self._order -= 1  # of keys with equal bytes, the first ones stay
        its = (key.memory or 0, self._show(key.name), key.type, key.members, key.ttl)
        large = LargeKey(*its, place, node.name, database, tenant)
        entry = (large.memory, self._order, large)
        if len(self._largest) < MOST_LARGEST:
            heapq.heappush(self._largest, entry)
        else:
            heapq.heapreplace(self._largest, entry)

    def _fold_patterns(self) -> None:
        lightest = sorted(self.patterns, key=lambda place: (self.patterns[place].bytes, self.patterns[place].keys))
        for place in lightest[:MOST_PATTERNS]:
            row = self.patterns.pop(place)
            add_row(self.patterns.setdefault(Place(OTHER, place.app), PatternRow(row.team)), row)

    def _fold_findings(self) -> None:
        for kind in sorted(self.findings, key=lambda kind: self.findings[kind].keys)[:MOST_FINDINGS]:
            row = self.findings.pop(kind)
            to = self.findings.setdefault(kind._replace(pattern=OTHER), FindingRow(row.text, row.by))
            if row.by > to.by:
                to.text, to.by = row.text, row.by
            to.keys += row.keys
            to.excepted += row.excepted
            to.bytes += row.bytes
            to.exemplars = (to.exemplars + row.exemplars)[:MOST_EXEMPLARS]
