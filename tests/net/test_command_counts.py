"""Commands are counted by name, with the ids of any command table."""

from __future__ import annotations

from proxy.commands.table import STANDARD, Table
from proxy.net.policy.command_counts import CommandCounts
from proxy.traffic.rule_totals import MOVABLE


def test_names_over_tables() -> None:
    counts = CommandCounts()
    get, name = STANDARD.find("GET"), STANDARD.find("CLIENT SETNAME")
    assert get is not None
    assert name is not None
    counts.of(STANDARD)[get.id] += 2
    counts.of(STANDARD)[0] += 1
    for n in range(20):
        other = Table([*STANDARD.specs[: name.id + 1], *STANDARD.specs[:0]])
        counts.of(other)[name.id] += 1
        assert counts.figures() == {"GET": 2, "unknown": 1, "CLIENT SETNAME": n + 1}
        assert counts.totals({"shop": 9}) == {"shop": 9, MOVABLE: 2}
