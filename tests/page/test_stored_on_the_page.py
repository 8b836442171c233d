"""The last scan of the state folder, at /stored and on the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from proxy.server.stored.kept import KeptScans
from proxy.server.stored.model import Bounds, PatternRow, Place, Sample
from tests.cli.made_scan import NOW, made_scan
from tests.page.browser import PHONE, WIDE, Browser
from tests.page.watching import LIVE, faint
from tests.server.running import serve

EVIL = "<img src=x onerror=pwned=1>"
SHOWN = "!document.querySelector('#stored').hidden"


def test_the_last_scan_is_told_in_short(upstream: str, tmp_path: Path) -> None:
    kept = KeptScans(tmp_path)
    with serve("--upstream", upstream, "--state-dir", str(tmp_path)) as running:
        running.ready()
        assert running.json("/stored") == {"scan": None, "left_off": {}}
        kept.write(made_scan("old"))
        assert running.json("/stored")["scan"]["upstream"] == "old"
        patterns = {Place(f"p{number}:*", "a"): PatternRow(keys=number) for number in range(1, 2001)}
        kept.write(replace(made_scan("a"), started=NOW + 1, patterns=patterns))
        told = running.json("/stored")
        assert (told["scan"]["upstream"], told["scan"]["keys"]) == ("a", sum(range(1, 2001)))
        assert [each["pattern"] for each in told["scan"]["patterns"]] == [f"p{2000 - each}:*" for each in range(50)]
        assert told["left_off"] == {"patterns": 1950}
        sample = Sample(0.01, 4_000, 400_000, {("app", "a", "keys"): Bounds(1, 2)}, Bounds(0, 9))
        kept.write(replace(made_scan("a"), started=NOW + 1.5, sample=sample))
        told = running.json("/stored")
        assert told["scan"]["sample"] == {"share": 0.01, "drawn": 4_000, "of": 400_000, "none": [0, 9]}
        assert told["left_off"] == {"bounds": 1}
        kept.file_of(replace(made_scan("a"), started=NOW + 2)).write_text("{}")
        status, body = running.http("/stored")
        assert status == 503
        assert "is not the JSON of a scan" in json.loads(body)["error"]


def test_it_can_be_read_on_the_page(browser: Browser, upstream: str, tmp_path: Path) -> None:
    KeptScans(tmp_path).write(made_scan(EVIL, "a" * 300, "שלום:עולם", "d", "e"))
    with serve("--upstream", upstream, "--state-dir", str(tmp_path)) as running, browser.tab() as tab:
        tab.go(running.ready().admin)
        tab.until(f"{LIVE} && {SHOWN}")
        for place, rows in (("owners", 3), ("findings", 3), ("largest", 2)):
            assert tab.js(f"document.querySelectorAll('#stored-{place} tbody tr').length") == rows
        assert EVIL in tab.js("document.querySelector('#stored').textContent")
        assert tab.js("window.pwned") is None
        assert faint(tab) == []
        wide = "[...document.querySelectorAll('#stored .scroll')].filter((it) => it.scrollWidth > it.clientWidth)"
        for width, height in (PHONE, (560, 800), (860, 800), WIDE):
            tab.resize(width, height)
            assert tab.js(f"{wide}.map((it) => it.firstElementChild.id)") == [], width
        assert tab.complaints == []


def test_without_a_scan_there_is_nothing_to_see(browser: Browser, upstream: str) -> None:
    with serve("--upstream", upstream) as running, browser.tab() as tab:
        tab.go(running.ready().admin)
        tab.until(f"{LIVE} && document.querySelector('#facts').textContent.includes('worker')")
        assert tab.js("document.querySelector('#stored').hidden")
