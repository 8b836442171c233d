"""A scan as text: the worst is at the top, and what is not known is no number."""

from __future__ import annotations

from dataclasses import replace

from proxy.cli.scan_html import html
from proxy.cli.scan_text import progress_bar, text
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.server.stored.json_form import as_json, from_json
from proxy.server.stored.model import Bounds, NodeFigures, Sample, Scan
from proxy.server.stored.scanner import Progress
from proxy.server.stored.totals import Totals
from tests.server.stored.fake_servers import FakeFinding, FakeJudged


def scan_of(totals: Totals, *nodes: NodeFigures) -> Scan:
    its = totals.patterns, totals.findings, totals.largest(), nodes
    return Scan("u", "p", 0.0, 1.0, True, 0.05, *its, faults=totals.faults)


def scanned(totals: Totals, *nodes: NodeFigures) -> str:
    return text(scan_of(totals, *nodes), {})


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
    told = [(each["sure"], each["mode"], each["keys"]) for each in as_json(scan_of(totals, node))["findings"]]
    assert told == [(True, "enforce", 3), *[(True, "audit", 50)] * 30, *[(False, "warn", 2)] * 30]
    page = html(scan_of(totals, node), {})
    assert page.index("3 bad-name: ") < page.index("50 bad-name: ") < page.index("2 too-large: ")


def test_a_key_of_another_database_is_shown_with_it() -> None:
    totals, node = Totals(lambda key: key.decode()), NodeFigures("one")
    fault = FakeFinding("names", "audit", False, StoredFault(Fault.BAD_NAME, "is bad"))
    for database in (0, 3):
        key = StoredKey(b"cart:1", "list", None, 10)
        totals.add(key, FakeJudged("cart:{int}", "shop", "", (fault,)), node, database)
    shown = scanned(totals, node)
    assert "      such as cart:1, db3 cart:1\n" in shown
    largest = [line.split("  ")[0] for line in shown.splitlines() if "list" in line]
    assert largest == ["cart:1", "db3 cart:1"]
    scan = scan_of(totals, node)
    assert [(each["key"], each["database"]) for each in as_json(scan)["largest"]] == [("cart:1", 0), ("cart:1", 3)]
    assert from_json(as_json(scan)).largest == scan.largest
    assert "db3 cart:1" in html(scan, {})


def test_the_figures_of_a_sample_have_bounds() -> None:
    totals, node = Totals(lambda key: key.decode()), NodeFigures("one", counted=40)
    fault = FakeFinding("names", "audit", False, StoredFault(Fault.BAD_NAME, "is bad"))
    add(totals, node, 40, "p", 100, fault)
    names = [("all", "bytes"), ("app", "shop", "keys"), ("app", "shop", "bytes"), ("pattern", "p", "shop", "keys")]
    names += [("fault", "bad-name", "milder"), ("finding", "names", "bad-name", "p", "shop", "audit", "True", "keys")]
    bounds = {name: Bounds(31 + at, 2048 + at) for at, name in enumerate(names)}
    scan = replace(scan_of(totals, node), sample=Sample(0.01, 40, 4_000, bounds, Bounds(0, 9)))
    shown = text(scan, {})
    assert shown.startswith("about 40 keys, 3.9 KiB (31 bytes to 2.0 KiB) in 1.0 s\nan estimate by a sample of 80 keys")
    page = html(scan, {})
    for said in ("40 (32 to 2,049)", "3.9 KiB (33 bytes to 2.0 KiB)", "40 (34 to 2,051)", "40 (36 to 2,053)"):
        assert said in shown, said
        assert said in page, said
    assert "40 (35 to 2,052)" in shown
    assert "a sample is never complete" in shown
    assert "looked at" in shown


def test_types_are_compared_with_what_the_server_says() -> None:
    totals, node = Totals(lambda key: key.decode()), NodeFigures("one", keysizes={"list": 5, "set": 2})
    add(totals, node, 4, "p", 100)
    lines = [line.split() for line in scanned(totals, node).splitlines()]
    at = lines.index(["type", "keys", "INFO", "keysizes"])
    assert lines[at + 1 : at + 3] == [["list", "4", "5"], ["set", "0", "2"]]
    assert "INFO keysizes" in html(scan_of(totals, node), {})
    assert "INFO keysizes" not in scanned(totals, node, NodeFigures("older", counted=1))


def test_a_bar_stays_on_one_line() -> None:
    progress = Progress(500, 600, 1200, ["one: it saves (RDB)"], taken=0.049)
    line = "500 keys, 50/s, 50% done, about 10 s left, 4.9% of the time of the server; one: it saves (RDB)"
    assert progress_bar(progress, 10.0, 200) == f"[##########..........] {line}"
    assert len(progress_bar(progress, 10.0, 80)) == 79
    assert progress_bar(progress, 10.0, 40) == "500 keys, 50/s, 50% done, about 10 s le"


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
