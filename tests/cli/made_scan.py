"""A scan in which all that others choose (keys, owners, texts) is made up by a test."""

from __future__ import annotations

from dataclasses import replace

from proxy.rules.stored import Fault
from proxy.server.stored.model import (
    FaultOf,
    FaultRow,
    FindingRow,
    Kind,
    LargeKey,
    NodeFigures,
    PatternRow,
    Place,
    Scan,
    SlotKeys,
)
from proxy.traffic.tag_spread import UnusualTags

NOW = 1_796_000_000.0
"""2026-11-30."""
DAY = 86_400


def made_scan(*names: str) -> Scan:
    """The names stand in turn wherever others choose the text."""
    turn = 0

    def name() -> str:
        nonlocal turn
        turn += 1
        return names[turn % len(names)]

    patterns: dict[Place, PatternRow] = {}
    findings: dict[Kind, FindingRow] = {}
    faults: dict[FaultOf, FaultRow] = {}
    for number in range(1, 4):
        place = Place(name(), name())
        row = PatternRow(name(), 1000 * number, 10**6 * number, 0, 10 * number, [0, number, 0, 0, 0, 7])
        patterns[place] = replace(row, types={"string": 1000 * number})
        kind = Kind(name(), Fault.NO_TTL, *place, "audit", number != 2)
        findings[kind] = FindingRow(name(), number, 10 * number, 1, 10**5, [name(), name()])
        faults[FaultOf(Fault.NO_TTL, place.app)] = FaultRow(0, 4, 5, 1)
    large = [LargeKey(10**6, name(), name(), members, None, Place(name(), name()), name()) for members in (None, 7)]
    node = NodeFigures(name(), counted=6000, bytes=6 * 10**6, restarts=1, info={"used_memory": 8e6})
    return Scan(
        upstream=name(),
        policy=name(),
        started=NOW,
        ended=NOW + 60,
        finished=False,
        share=0.05,
        patterns=patterns,
        findings=findings,
        faults=faults,
        largest=large,
        nodes=[node],
        slots=[SlotKeys(12, 3, 10**5)],
        used_slots=2,
        notes=[name()],
        tags=[UnusualTags(name(), 1_000, "they are dates")],
    )
