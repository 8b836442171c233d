"""The file of `keyrail report --html` in a browser: it can be read at each width and on paper, and runs nothing."""

from __future__ import annotations

import base64
from itertools import pairwise
from pathlib import Path

import pytest

from proxy.cli.report_html import html
from tests.cli.made_report import made_report
from tests.cli.test_report import HOSTILE
from tests.page.browser import PHONE, WIDE, Browser
from tests.page.watching import faint

RTL = "שלום:עולם"


@pytest.fixture
def file(tmp_path: Path) -> str:
    page = tmp_path / "report.html"
    page.write_text(html(made_report(*HOSTILE, "x" * 300, RTL)), "utf-8")
    return page.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_can_be_read_and_runs_nothing(browser: Browser, file: str, scheme: str, size: tuple[int, int]) -> None:
    root = "document.documentElement"
    with browser.tab(size, prefers_color_scheme=scheme) as tab:
        tab.go(file)
        tab.until("document.readyState === 'complete' && document.querySelector('#rest') !== null")
        assert faint(tab) == []
        assert tab.js(f"{root}.scrollWidth <= {root}.clientWidth"), "nothing is scrolled sideways"
        ground = tab.js("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(14, 17, 22)"}[scheme]
        assert tab.js("window.pwned") is None
        assert tab.js("performance.getEntriesByType('resource').length") == 0
        assert tab.complaints == []


def test_links_lead_to_teams_and_findings_and_bars_are_drawn(browser: Browser, file: str) -> None:
    with browser.tab() as tab:
        tab.go(file)
        tab.until("document.querySelector('#rest') !== null")
        links = "[...document.querySelectorAll('a[href]')]"
        assert tab.js(f"{links}.every((link) => document.getElementById(link.hash.slice(1)))")
        tab.js(f"{links}.find((link) => link.textContent === 'data').click()")
        tab.until("document.querySelector(':target h2')?.textContent === 'data'")
        widths = tab.js("[...document.querySelectorAll('.bar')].map((bar) => bar.getBoundingClientRect().width)")
        assert max(widths) > 100
        assert min(widths) >= 2
        assert tab.js("document.querySelector('svg path').getBBox().width") > 200


def test_letters_from_right_to_left_move_nothing_beside_them(browser: Browser, file: str) -> None:
    with browser.tab() as tab:
        tab.go(file)
        tab.until("document.querySelector('#rest') !== null")
        isolated = (
            "(each) => getComputedStyle(each).unicodeBidi === 'isolate' && getComputedStyle(each).direction === 'ltr'"
        )
        names = f"[...document.querySelectorAll('code')].filter((each) => each.textContent.includes({RTL!r}))"
        assert tab.js(f"{names}.length > 0 && {names}.every({isolated})")


def test_a_screen_reader_gets_headings_tables_with_headers_and_a_text_for_each_picture(
    browser: Browser, file: str
) -> None:
    with browser.tab() as tab:
        tab.go(file)
        tab.until("document.querySelector('#rest') !== null")
        levels = tab.js("[...document.querySelectorAll('h1, h2, h3, h4')].map((each) => Number(each.tagName[1]))")
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(deeper <= level + 1 for level, deeper in pairwise(levels))
        bare = "table:not(:has(> caption)), table:not(:has(thead th[scope=col])), tbody tr:not(:has(th[scope=row]))"
        assert tab.js(f"document.querySelectorAll({bare!r}).length") == 0
        assert tab.js("[...document.querySelectorAll('svg')].every((each) => each.ariaLabel.startsWith('By hour'))")
        assert tab.js("[...document.querySelectorAll('.bar')].every((each) => each.closest('[aria-hidden]'))")
        assert tab.js("document.documentElement.lang") == "en"


def test_each_team_begins_a_page_of_print(browser: Browser, file: str) -> None:
    with browser.tab() as tab:
        tab.go(file)
        tab.until("document.querySelector('#rest') !== null")
        pdf = base64.b64decode(tab.do("Page.printToPDF")["data"])
        assert pdf.count(b"/Type /Page\n") >= 4, "the overview, two teams, and what this proves"
        tab.do(
            "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
        )
        assert tab.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert faint(tab) == []
