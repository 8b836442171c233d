"""A scan as text: the worst is at the top, and what is not known is no number."""

from __future__ import annotations

from proxy.cli.scan_text import text
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.server.stored.model import NodeFigures, Scan
from proxy.server.stored.totals import Totals
from tests.server.stored.fake_servers import FakeFinding, FakeJudged


def scanned(totals: Totals, *nodes: NodeFigures) -> str:
    its = totals.patterns, totals.findings, totals.largest(), nodes
    return text(Scan("u", "p", 0.0, 1.0, True, 0.05, *its, faults=totals.faults), {})


def add(totals: Totals, node: NodeFigures, number: int, pattern: str, memory: int | None, *found: FakeFinding) -> None:
    for each in range(number):
        key = StoredKey(b"%b%d" % (pattern.encode(), each), "list", None, memory)
        totals.add(key, FakeJudged(pattern, "shop", "", found), node, 0)


def test_few_enforced_findings_come_before_many_milder_ones() -> None:
    totals, node = Totals(lambda key: key.decode()), NodeFigures("one")
    for number in range(30):
        mild = FakeFinding("names", "audit", False, StoredFault(Fault.BAD_NAME, "is bad"))
        add(totals, node, 50, f"p{number}", 10, mild)
        unsure = FakeFinding("caps", "warn", False, StoredFault(Fault.TOO_LARGE, "may have over 9", sure=False))
        add(totals, node, 2, f"q{number}", 10, unsure)
    add(totals, node, 3, "worst", 10, FakeFinding("strict", "enforce", False, StoredFault(Fault.BAD_NAME, "is worse")))
    lines = scanned(totals, node).splitlines()
    table = [line.split() for line in lines if line.startswith(("bad-name ", "too-large "))]
    assert table == [["bad-name", "3", "1,500", "0", "0"], ["too-large", "0", "0", "60", "0"]]
    at = lines.index("bad-name")
    assert lines[at + 1 : at + 3] == ["  3 by strict (enforce)", "      worst of shop, 30 bytes: e.g. is worse"]
    assert "  and 1,150 of 23 more patterns and rules (--json)" in lines
    assert lines[lines.index("too-large") + 1] == "  60 may have it by caps (warn): their members are not counted"
    assert sum("may have it by" in line for line in lines) == 1


def test_bytes_that_are_not_known_are_no_zeros() -> None:
    totals, node = Totals(lambda key: key.decode()), NodeFigures("one")
    add(totals, node, 2, "none", None)
    assert scanned(totals, node).startswith("2 keys, - in 1.0 s\n")
    assert "0 bytes" not in scanned(totals, node)
    add(totals, node, 2, "some", 2048)
    assert scanned(totals, node).startswith("4 keys, at least 4.0 KiB in 1.0 s\n")


def test_keys_that_are_elsewhere_or_gone_are_told() -> None:
    shown = scanned(Totals(str), NodeFigures("one", elsewhere=991, gone=2)).splitlines()
    assert "  991 keys lie on one, which did not own their slots" in shown
    assert "  2 keys of one were gone when they were looked at" in shown
