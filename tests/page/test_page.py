"""The page in a browser: real traffic in, the right key on top, and everything else that a viewer sees."""

import json
import re
from collections.abc import Callable

from tests.page.browser import PHONE, Browser, Tab
from tests.page.watching import EVIL_KEY, EVIL_NAME, HOT, LIVE, LONG_KEY, TOKEN, TOP, faint, give_token, shown
from tests.resp import pack
from tests.server.running import Running


def test_the_busiest_key_is_on_top_and_enter_tells_who_is_behind_it(
    browser: Browser, running: Running, traffic: Callable[[], None]
) -> None:
    with browser.tab() as tab:
        shown(tab, running, traffic)
        tab.until("document.title.startsWith('● product:8841:stock ')", traffic)
        assert tab.text(TOP) == HOT
        keys = tab.js("[...document.querySelectorAll('#keys-table button.key')].map((key) => key.textContent)")
        assert EVIL_KEY in keys, "as text"
        assert tab.js("document.querySelectorAll('#heat .warm').length") == 256

        tab.js(f"document.querySelector({json.dumps(TOP)}).focus()")
        tab.press("Enter")
        tab.until("document.querySelector('#details').open")
        assert tab.text("#details-key") == HOT
        tab.until(f"document.querySelector('#details-clients').textContent.includes({json.dumps(EVIL_NAME)})", traffic)
        assert HOT in tab.text("#details-remedy")
        assert re.search("TTL left(–|none)Slot5749", tab.text("#details-facts"))
        assert f"key={HOT.replace(':', '%3A')}" in tab.js("location.hash")
        tab.press("Escape")
        tab.until("!document.querySelector('#details').open")
        assert tab.js("document.activeElement.textContent") == HOT, "the focus is where it was"

        tab.until("document.querySelector('#violations-table').textContent.includes('spark-7')", traffic)
        assert "walks" in tab.text("#violations-table tbody tr")
        assert "Generation1" in tab.text("#policy-facts")
        assert tab.js("[...document.querySelectorAll('img, script:not([src])')].length") == 0
        assert tab.js("window.pwned") is None
        assert tab.complaints == []


def test_an_address_with_a_key_opens_it_and_a_click_beside_it_closes_it(
    browser: Browser, running: Running, traffic: Callable[[], None]
) -> None:
    with browser.tab() as tab:
        shown(tab, running, traffic, f"/#window=10&key={HOT}")
        tab.until("document.querySelector('#details').open", traffic)
        assert tab.js("document.querySelector('#windows input:checked').value") == "10"
        tab.click("#details-close")
        tab.until("!document.querySelector('#details').open")
        tab.click(TOP)
        tab.until("document.querySelector('#details').open")
        assert tab.complaints == []


def test_a_table_is_sorted_and_figures_stand_still(
    browser: Browser, running: Running, traffic: Callable[[], None]
) -> None:
    with browser.tab() as tab:
        shown(tab, running, traffic)
        tab.click("#keys-table thead th:first-child button")
        assert tab.js("document.querySelector('#keys-table thead th').ariaSort") == "ascending"
        assert tab.text(TOP) == '""', "a key can have an empty name"
        tab.click("#pause")
        assert tab.text("#state-text") == "paused"
        assert tab.text("#pause") == "Resume"
        tab.click("#pause")
        tab.until(LIVE)
        assert tab.complaints == []


def test_at_any_width_the_key_and_who_uses_it_can_be_read_and_nothing_is_scrolled_sideways(
    browser: Browser, running: Running, traffic: Callable[[], None]
) -> None:
    top = f"document.querySelector({json.dumps(TOP)})"
    places = "[...document.querySelectorAll('#keys-table tbody tr:first-child :is(.who, .behind)')]"
    who = f"{places}.find((it) => it.offsetWidth)"
    html = "document.documentElement"
    with browser.tab() as tab:
        shown(tab, running, traffic)
        tab.until(f"{top}.textContent === {json.dumps(HOT)} && {who}.textContent.startsWith('<img')", traffic)
        for width in (1600, 1280, 1181, 1180, 900, 861, 860, 768, 600, 560, 390, 320):
            tab.resize(width, 800)  # a browser lays the page out anew when it comes to it
            tab.until(f"innerWidth === {width} && {html}.scrollWidth <= {html}.clientWidth")
            tab.until("[...document.querySelectorAll('.scroll')].every((it) => it.scrollWidth <= it.clientWidth)")
            tab.until(f"{who}.textContent.startsWith({json.dumps(EVIL_NAME)})")
            if width > 360:
                tab.until(f"{top}.scrollWidth <= {top}.clientWidth")  # the key is not cut


def test_a_hot_key_is_marked_and_its_incident_opens_it(
    browser: Browser, running: Running, traffic: Callable[[], None]
) -> None:
    with browser.tab() as tab:
        shown(tab, running, traffic)
        tab.until("document.querySelector('#incidents-list button')?.offsetWidth", traffic)
        tab.until("document.querySelector('#keys-table tbody tr:first-child').matches('[data-hot]')", traffic)
        tab.click("#incidents-list button")
        tab.until("document.querySelector('#details').open")
        assert tab.text("#details-key") == HOT
        assert tab.text("#details-incidents").startswith("INC-")


def test_what_a_key_did_is_there_at_once(browser: Browser, running: Running, traffic: Callable[[], None]) -> None:
    drawn = "document.querySelector('#keys-table .spark .line')?.getAttribute('d')"
    with browser.tab() as tab:
        shown(tab, running, traffic)
        tab.until(f"{drawn}.split('L').length > 8", traffic)  # in a busy second there may be a gap behind the reload
        tab.go("about:blank")
        tab.go(running.admin)
        assert tab.until(drawn).count("L") > 3


def test_a_key_that_is_not_shown_whole_is_not_offered_a_remedy_that_would_miss_it(
    browser: Browser, running: Running, traffic: Callable[[], None]
) -> None:
    with browser.tab() as tab:
        shown(tab, running, traffic)
        names = "[...document.querySelectorAll('#keys-table button.key')]"
        for key, command in (('""', "keyrail remedy '' "), (LONG_KEY[:100], None)):
            find = f"{names}.find((it) => it.textContent.startsWith({json.dumps(key)}))"
            tab.until(find + " !== undefined", traffic)
            tab.js(f"{find}.click()")
            assert tab.text("#details-key").startswith(key)
            assert tab.js("document.querySelector('#details-command').hidden") == (command is None)
            if command is not None:
                assert tab.text("#details-remedy").startswith(command)
                assert tab.text("#details-remedy").endswith(f" --admin {running.admin}")
            tab.press("Escape")
            tab.until("!document.querySelector('#details').open")


def test_a_phone_shows_it_without_scrolling_sideways(
    browser: Browser, running: Running, traffic: Callable[[], None]
) -> None:
    with browser.tab(PHONE) as tab:
        shown(tab, running, traffic)
        tab.until("document.querySelector('#violations-table').textContent.includes('spark-7')", traffic)
        # An element that scrolls inside of its own box counts, too.
        places = "[...document.querySelectorAll('html, .scroll')].map((each) => [each.scrollWidth, each.clientWidth])"
        assert [wide for wide, room in tab.js(places) if wide > room] == []
        assert tab.js("document.documentElement.scrollWidth") == PHONE[0]
        tab.click(TOP)
        tab.until("document.querySelector('#details').open")
        assert tab.js("document.querySelector('#details').scrollWidth") <= PHONE[0]
        assert tab.complaints == []


def test_dark_and_without_motion_where_that_is_wanted(
    browser: Browser, running: Running, traffic: Callable[[], None]
) -> None:
    def lightness(tab: Tab) -> tuple[int, int]:
        colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        ground, ink = (sum(map(int, colour[4:-1].split(","))) for colour in tab.js(colours))
        return ground, ink

    with browser.tab(prefers_color_scheme="dark", prefers_reduced_motion="reduce") as tab:
        shown(tab, running, traffic)
        ground, ink = lightness(tab)
        assert ground < 100
        assert ink > 600
        assert faint(tab) == []
        assert tab.js("getComputedStyle(document.querySelector('.meter i')).transitionDuration") == "0s"
    with browser.tab(prefers_color_scheme="light") as tab:
        shown(tab, running, traffic)
        ground, ink = lightness(tab)
        assert ground > 600
        assert ink < 100
        assert faint(tab) == []
        tab.click(TOP)
        tab.until("document.querySelector('#details').open")
        assert faint(tab) == []


def test_from_a_key_to_its_remedy_and_back(browser: Browser, guarded: Running) -> None:
    sessions = int(re.findall(r":(\d+) -> ", guarded.ready_line())[1])
    with browser.tab() as tab, guarded.wire(sessions) as first, guarded.wire(sessions) as second:
        first.ask("CLIENT", "SETNAME", "checkout-1")
        second.ask("CLIENT", "SETNAME", "checkout-2")

        def hammer() -> None:
            for wire in (first, second):
                wire.send(pack("GET", HOT) * 15)
                wire.frames(15)

        tab.go(guarded.admin + "/#route=sessions")
        give_token(tab, TOKEN)
        tab.until(f"document.querySelector({json.dumps(TOP)}) !== null", hammer)
        tab.until("document.querySelector('#keys-table .who').textContent === 'checkout 100 %'", hammer)
        tab.click(TOP)
        tab.until("document.querySelector('#details-clients').textContent.includes('checkout-2')", hammer)
        tab.js("document.querySelector('#remedy-kinds [value=cap]').click()")
        tab.js("document.querySelector('#remedy-app').value = 'checkout'")
        tab.js("document.querySelector('#remedy-rate').value = '1/m'")
        tab.js("document.querySelector('#remedy-because').focus()")
        tab.do("Input.insertText", text="a test")
        assert tab.js("document.querySelector('#remedy-do').disabled"), "first it is looked at"
        tab.click("#remedy-try")
        tab.until("document.querySelector('#remedy-told').textContent.includes('would have refused')")
        tab.click("#remedy-do")
        tab.until("document.querySelector('#remedy-standing').textContent.includes('at most 1/m for checkout')")
        (remedy,) = json.loads(guarded.http("/remedies", headers={"Authorization": f"Bearer {TOKEN}"})[1])["remedies"]
        assert (remedy["key"], remedy["route"], remedy["because"]) == (HOT, "sessions", "a test")
        tab.click("#remedy-standing button")
        tab.until("document.querySelector('#remedy-told').textContent === 'Remedy 1 is undone.'")
        tab.until("!document.querySelector('#remedy-standing li')")
        assert all("401" in each for each in tab.complaints)
