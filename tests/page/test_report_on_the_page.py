"""What rules would break, on the page: the matrix, the details of a cell, and an address that can be shared."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.page.browser import PHONE, WIDE, Browser, Tab
from tests.page.test_page_in_trouble import named
from tests.page.watching import LIVE, TOKEN, faint, give_token
from tests.resp import eventually, pack
from tests.server.running import Running, serve

POLICY = """
keyrail: 1
defaults: {mode: audit}
apps:
  checkout: {team: shop, contact: "#shop", match: {client_name: "checkout*"}}
  reports: {team: data, match: {client_name: "spark*"}}
rules:
  walks: {refuse: [KEYS], because: one KEYS stops every client, instead: take SCAN}
  flushes: {refuse: [FLUSHALL]}
  lifetimes: {lifetime: {default: 5m}}
exceptions: [{rule: walks, keys: "lock:*", because: OPS-1, until: 2099-01-15, then: warn}]
"""
EVIL = "spark<img/src=x/onerror=pwned=1>"
EVIL_KEY = "</script><img/src=x/onerror=pwned=2>:\u202e:1"


@pytest.fixture(scope="module")
def watched(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A Keyrail that has seen 3 walks of checkout, 7 of reports, and 3 keys that would get a TTL."""
    policy = tmp_path_factory.mktemp("report") / "policy.yaml"
    policy.write_text(POLICY)
    with serve("--upstream", upstream, "--policy", str(policy)) as running:
        with running.ready().wire() as checkout, running.wire() as reports:
            for wire, name, walks in ((checkout, "checkout-1", 3), (reports, EVIL, 7)):
                wire.ask("CLIENT", "SETNAME", name)
                wire.send(pack("KEYS", "nothing:*") * walks)
                wire.frames(walks)
            reports.send(pack("SET", EVIL_KEY, "x") * 3)
            reports.frames(3)
        eventually(lambda: counts(running) == {"walks checkout": 3, "walks reports": 7, "lifetimes reports": 3})
        yield running


def counts(running: Running) -> dict[str, int]:
    return {
        f"{each['rule']} {app['app']}": each["count"]
        for team in running.json("/report")["teams"]
        for app in team["apps"]
        for each in app["findings"]
    }


def opened(tab: Tab, running: Running, address: str = "/") -> None:
    """Open the page, and wait for the report."""
    tab.go(running.admin + address)
    tab.until(f"{LIVE} && document.querySelectorAll('#report-table tbody th').length > 0")


def matrix(tab: Tab) -> list[list[str]]:
    """The texts of the matrix, with its heads."""
    cells = "[...row.children].map((cell) => cell.textContent)"
    return list(tab.js(f"[...document.querySelectorAll('#report-table tr')].map((row) => {cells})"))


def test_the_worst_is_first_and_a_click_tells_what_to_do(browser: Browser, watched: Running) -> None:
    with browser.tab() as tab:
        opened(tab, watched)
        head, walks, lifetimes = matrix(tab)
        assert head == ["Rule", "reports", "checkout"]
        assert (walks[0], walks[1][0], walks[2]) == ("walks", "7", "3 · 100 %")
        assert (lifetimes[0], lifetimes[1][0], lifetimes[2]) == ("lifetimes", "3", "")
        breaks = tab.js("[...document.querySelectorAll('#report-table [data-breaks]')].map((cell) => cell.ariaLabel)")
        assert breaks == ["walks, reports: 7 of 7 would be refused", "walks, checkout: 3 of 3 would be refused"]
        assert (
            tab.js("document.querySelectorAll('#report-table button:not([hidden]) .spark path.line[d^=M]').length") == 3
        )
        assert tab.text("#report-silent li") == "flushes: no command that it is about was seen, so this proves nothing"

        tab.click("#report-table tbody tr:first-child td:nth-child(3) button")
        tab.until("document.querySelector('#finding').open")
        assert tab.text("#finding-title") == "walks, checkout"
        shown = tab.text("#finding-parts")
        for said in (
            "3 of 3 commands (100 %) would be refused",
            "one KEYS stops every client",
            "take SCAN",
            "#shop",
            "on keys lock:* for all apps, until 2099-01-15",
            "checkout-",
            "KEYS",
        ):
            assert said in shown, said
        assert "cell=walks%2Fcheckout" in tab.js("location.hash")
        assert faint(tab) == []
        assert {"dialog", "table"} <= {role for role, _ in named(tab)}
        tab.press("Escape")
        tab.until("!document.querySelector('#finding').open")
        assert "cell" not in tab.js("location.hash")
        assert tab.js("document.activeElement.ariaLabel.startsWith('walks, checkout')"), "the focus is where it was"
        assert tab.complaints == []


def test_a_slash_focuses_the_filter_and_the_address_can_be_shared(browser: Browser, watched: Running) -> None:
    with browser.tab() as tab:
        opened(tab, watched)
        tab.press("/")
        tab.until("document.activeElement.id === 'report-filter'")
        assert tab.js("document.activeElement.value") == ""
        tab.press("/")
        assert tab.js("document.activeElement.value") == "/", "there it is a letter"
        tab.js("document.activeElement.select()")
        tab.do("Input.insertText", text="CHECKOUT walks")
        assert matrix(tab) == [["Rule", "checkout"], ["walks", "3 · 100 %"]]
        tab.js("(document.querySelector('#report-since').value = '30d',"
               " document.querySelector('#report-since').dispatchEvent(new Event('change')))")  # fmt: skip
        tab.click("#report-table tbody button")
        tab.until("document.querySelector('#finding').open")
        address = tab.js("location.hash")
        assert address == "#window=60&since=30d&filter=CHECKOUT+walks&cell=walks%2Fcheckout"
    with browser.tab() as tab:
        opened(tab, watched, "/" + address)
        tab.until("document.querySelector('#finding').open")
        assert tab.text("#finding-title") == "walks, checkout"
        assert tab.js("document.querySelector('#report-since').value") == "30d"
        assert tab.js("document.querySelector('#report-filter').value") == "CHECKOUT walks"
        assert matrix(tab) == [["Rule", "checkout"], ["walks", "3 · 100 %"]]
        asked = (
            "performance.getEntriesByType('resource').map(({name}) => name).filter((name) => name.includes('/report?'))"
        )
        assert {each.rpartition("/")[2] for each in tab.js(asked)} == {"report?since=30d"}


@pytest.mark.parametrize("address", ["#since=never&filter=nothing+fits&cell=a/b", "#cell=%00%ff", "#cell=walks/<b>"])
def test_an_address_that_names_what_is_not_there(browser: Browser, watched: Running, address: str) -> None:
    with browser.tab() as tab:
        tab.go(f"{watched.admin}/{address}")
        tab.until(f"{LIVE} && document.querySelector('#report-note').textContent.includes('commands since')")
        assert tab.js("document.querySelector('#report-since').value") == "7d"
        assert not tab.js("document.querySelector('#finding').open")
        rows = [["Rule"], ["No rule has found anything"]] if "filter" in address else matrix(tab)
        assert matrix(tab) == rows
        assert tab.complaints == []


def test_names_that_clients_choose_are_text(browser: Browser, watched: Running) -> None:
    with browser.tab() as tab:
        opened(tab, watched, "/#cell=lifetimes/reports")
        tab.until("document.querySelector('#finding').open")
        shown = tab.text("#finding-parts")
        assert "spark<img/src=x/onerror=pwned=" in shown
        assert "</script><img/src=x/onerror=pwned=" in shown
        assert "\u202e" not in shown
        assert "3 of 3 commands (100 %) would be rewritten; no client notices" in shown
        assert tab.js("document.querySelectorAll('img').length") == 0
        assert tab.js("window.pwned") is None
        assert tab.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_can_be_read(browser: Browser, watched: Running, scheme: str, size: tuple[int, int]) -> None:
    root = "document.documentElement"
    with browser.tab(size, prefers_color_scheme=scheme) as tab:
        opened(tab, watched)
        assert faint(tab) == []
        assert tab.js(f"{root}.scrollWidth <= {root}.clientWidth"), "the matrix scrolls by itself"
        tab.js("document.querySelector('#report-table tbody button').click()")
        tab.until("document.querySelector('#finding').open")
        assert faint(tab) == []
        assert tab.js(
            "document.querySelector('#finding').scrollWidth <= document.querySelector('#finding').clientWidth"
        )
        named(tab)


def test_with_a_token_it_is_asked_for_with_the_token(browser: Browser, guarded: Running) -> None:
    with browser.tab() as tab, guarded.wire() as wire:
        wire.ask("GET", "a")
        tab.go(guarded.admin)
        give_token(tab, TOKEN)
        tab.until("document.querySelector('#report-note').textContent.includes('commands since')")
        assert all("401" in each for each in tab.complaints)


def test_a_report_that_fails_is_said_and_the_matrix_stays(browser: Browser, watched: Running) -> None:
    fails = {"error": "the evidence could not be read in 10 s"}
    with browser.tab() as tab:
        opened(tab, watched)
        answer = f"new Response({json.dumps(json.dumps(fails))}, {{status: 503}})"
        tab.js(f"window.fetch = async () => {answer}")
        tab.js("document.querySelector('#report-since').dispatchEvent(new Event('change'))")
        tab.until(f"document.querySelector('#report-note').textContent.endsWith({json.dumps(fails['error'])})")
        assert len(matrix(tab)) == 3
