"""A hot key on the page: answered from memory by a button, with the mark and the figures that this brings."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.page.browser import Browser, Tab
from tests.page.watching import TOKEN, TOP, faint, give_token
from tests.resp import pack
from tests.server.running import Running

READ, WRITTEN = "product:8841:stock", "visits:today"
KINDS = "[...document.querySelectorAll('#remedy-kinds label')].map((label) => label.textContent)"
CHOSEN = "document.querySelector('#remedy-kinds input:checked').value"
COMMAND = "document.querySelector('#details-remedy').textContent"
MARK = "document.querySelector('#keys-table tr[data-cached] .pair .tag[data-kind=cached]')"
MARKS = "[...document.querySelectorAll('#keys-table .tag[data-kind=cached]')]"
FACTS = "document.querySelector('#cache-facts').textContent"
WIDE = (
    "[...document.querySelectorAll('html, .scroll')]"
    ".filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.firstElementChild.id)"
)


@pytest.fixture
def traffic(guarded: Running) -> Iterator[Callable[[], None]]:
    """A key that is only read, and one that is only written."""
    sessions = int(re.findall(r":(\d+) -> ", guarded.ready_line())[1])
    with ExitStack() as stack:
        reader, writer = (stack.enter_context(guarded.wire(sessions)) for _ in range(2))
        reader.ask("SET", READ, "17")

        def moment() -> None:
            reader.send(pack("GET", READ) * 30)
            reader.frames(30)
            writer.send(pack("INCR", WRITTEN) * 10)
            writer.frames(10)

        yield moment


def open_key(tab: Tab, key: str) -> None:
    """In the moment in which another one is closed, if one is open."""
    names = "[...document.querySelectorAll('#keys-table button.key')]"
    click = f"{names}.find((it) => it.textContent === {json.dumps(key)}).click()"
    tab.js(f"(document.querySelector('#details').close(), {click})")
    tab.until("document.querySelector('#details').open")
    assert tab.text("#details-key") == key


def test_a_key_is_answered_from_memory_by_a_button(
    browser: Browser, guarded: Running, traffic: Callable[[], None]
) -> None:
    with browser.tab() as tab:
        tab.go(guarded.admin + "/#route=sessions")
        give_token(tab, TOKEN)
        tab.until("document.querySelectorAll('#keys-table tbody button').length === 2", traffic)
        assert tab.js("document.querySelector('#cache').hidden"), "no rule is about it"
        assert tab.js(f"{MARK} === null")

        open_key(tab, WRITTEN)
        assert tab.js(KINDS) == ["Limit", "Answer from memory"]
        assert tab.js(CHOSEN) == "cap"
        open_key(tab, READ)
        assert tab.js(KINDS) == ["Answer from memory", "Limit"]
        assert tab.js(CHOSEN) == "cache"
        assert f"keyrail remedy {READ} --local-cache --for 2h --because " in tab.js(COMMAND)
        assert not tab.js("document.querySelector('#remedy-rate').checkVisibility()")
        assert tab.js("document.querySelector('#remedy-for').value") == "2h"
        tab.click("#remedy-kinds label:nth-of-type(2)")
        assert " --cap " in tab.js(COMMAND)
        assert tab.js("document.querySelector('#remedy-rate').checkVisibility()")
        assert tab.js("document.querySelector('#remedy-for').value") == "30m"
        tab.click("#remedy-kinds label:nth-of-type(1)")

        tab.js("document.querySelector('#remedy-because').focus()")
        tab.do("Input.insertText", text="a test")
        tab.click("#remedy-try")
        tab.until("document.querySelector('#remedy-told').textContent.includes('of this only read it')")
        tab.click("#remedy-do")
        standing = "document.querySelector('#remedy-standing').textContent"
        tab.until(f"{standing}.includes('reads answered from memory for all')", traffic)
        (remedy,) = json.loads(guarded.http("/remedies", headers={"Authorization": f"Bearer {TOKEN}"})[1])["remedies"]
        assert (remedy["key"], remedy["local_cache"], remedy["because"]) == (READ, True, "a test")

        tab.until(f"/^cached [0-9.]+ %$/.test({MARK}.textContent)", traffic)
        tab.until("document.querySelector('#details-facts').textContent.includes('Reads from memory')", traffic)
        tab.until(f"/answered [1-9]/.test({standing})", traffic)
        tab.until(f"/Answered from memory[1-9]/.test({FACTS}) && /Memory[0-9.]+ K?B of 16.8 MB/.test({FACTS})", traffic)
        assert tab.text("#cache-note").startswith("remedy-1; last ")
        assert faint(tab) == []
        tab.press("Escape")
        tab.until("!document.querySelector('#details').open")
        assert faint(tab) == []
        top = f"document.querySelector({json.dumps(TOP)})"
        for width in (1280, 1180, 860, 600, 560, 390, 320):
            tab.resize(width, 800)
            assert tab.js(WIDE) == [], width
            shown = f"{MARKS}.filter((it) => it.offsetWidth)"
            assert tab.js(f"{shown}.length") == 1, width
            if width > 360:
                assert tab.js(f"{top}.scrollWidth <= {top}.clientWidth"), f"the key is cut at {width}"
        tab.resize(1280, 800)

        open_key(tab, READ)
        assert tab.js(CHOSEN) == "cap", "it is in memory already"
        tab.click("#remedy-standing button")
        tab.until("document.querySelector('#remedy-told').textContent === 'Remedy 1 is undone.'")
        tab.until("document.querySelector('#cache').hidden")
        assert all("401" in each for each in tab.complaints)
