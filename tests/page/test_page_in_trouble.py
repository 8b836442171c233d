"""The page with a problem: a token, a connection, Redis, an address, or unusual names."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy.cli import main
from tests.engines import Engine, free_port
from tests.failover.troubles import staged
from tests.page.browser import PHONE, Browser, Tab
from tests.page.watching import HOT, LIVE, TOKEN, TOP, faint, give_token, shown
from tests.resp import pack
from tests.server.running import Running, serve


def test_a_lost_connection_is_said_and_comes_back_by_itself(browser: Browser, upstream: str) -> None:
    ports = ["--admin", f"127.0.0.1:{free_port()}", "--listen", f"127.0.0.1:{free_port()}"]
    with browser.tab() as tab:
        with serve("--upstream", upstream, *ports) as first:
            first.ready()
            tab.go(first.admin)
            tab.until(LIVE)
            assert first.stop() == 0, "a page that is open does not hold up the end"
        tab.until("document.querySelector('#notice-connection')?.textContent.startsWith('Connection lost at ')")
        assert faint(tab) == []
        assert tab.text("#state-text") == "connection lost"
        with serve("--upstream", upstream, *ports) as second:
            second.ready()
            tab.until(f"{LIVE} && !document.querySelector('#notice-connection')")
        assert all("ERR_CONNECTION_REFUSED" in each or "ERR_INCOMPLETE" in each for each in tab.complaints)


def test_problems_of_routes_that_are_ready_are_said(browser: Browser, tmp_path: Path) -> None:
    """Each with Sentinels, a name or a deposed primary."""
    with staged(tmp_path) as stage, browser.tab() as tab:
        tab.go(stage.keyrail.admin)
        tab.until(f"{LIVE} && !document.querySelector('#notice-warning')")
        lines = list(stage.begin().values())
        is_said = "document.querySelector('#notice-warning')?.textContent.includes(line)"
        tab.until(f"{json.dumps(lines)}.every((line) => {is_said})")
        assert not tab.js("document.querySelector('#notice-ready')")
        assert not faint(tab)
        stage.mend()
        tab.until("!document.querySelector('#notice-warning')")


def test_a_token_is_asked_for_once_and_routes_can_be_chosen(browser: Browser, guarded: Running) -> None:
    with browser.tab() as tab:
        tab.go(guarded.admin)
        for given, then in (
            (
                "not-the-token",
                "document.querySelector('#token-text').textContent.startsWith('Keyrail does not accept')",
            ),
            (TOKEN, LIVE),
        ):
            give_token(tab, given)
            tab.until(then)
        names = "[...document.querySelectorAll('#route option')].map((option) => option.value)"
        assert tab.until(f"!document.querySelector('#routes').hidden && {names}") == ["orders", "sessions"]
        tab.js("(route.value = 'sessions', route.dispatchEvent(new Event('change')))")
        assert tab.js("location.hash") == "#route=sessions&window=60"
        tab.go("about:blank")
        tab.go(guarded.admin + "/#route=sessions")
        tab.until(f"{LIVE} && document.querySelector('#route').value === 'sessions'")
        assert not tab.js("document.querySelector('#token').open"), "this tab has it"
        assert all("401" in each for each in tab.complaints)


def test_behind_the_token_dialog_nothing_is_said_that_nobody_knows(browser: Browser, guarded: Running) -> None:
    said = "[...document.querySelectorAll('main .none')].map((row) => row.textContent)"
    with browser.tab() as tab:
        tab.go(guarded.admin)
        tab.until("document.querySelector('#token')?.open")
        assert tab.js(said) == []
        give_token(tab, TOKEN)
        tab.until(LIVE)
        assert "The policy has no rules" in tab.js(said)


def test_a_token_that_no_header_carries_and_one_that_has_changed(
    browser: Browser, guarded: Running, tmp_path: Path
) -> None:
    wrong = "document.querySelector('#token').open && document.querySelector('#token-text').textContent.startsWith('K')"
    with browser.tab() as tab:
        tab.go(guarded.admin)
        give_token(tab, "τoken-of-letters-that-no-header-carries")
        tab.until(wrong)
        give_token(tab, TOKEN)
        tab.until(LIVE)
        (tmp_path / "token").write_text(TOKEN[::-1])
        tab.do("Page.reload")
        tab.until(wrong)
        tab.js("document.querySelector('#token-input').focus()")
        tab.do("Input.insertText", text=TOKEN[::-1][:5])
        tab.js("document.querySelector('#state-text').textContent = ''")
        tab.js("document.dispatchEvent(new Event('visibilitychange'))")  # somebody fetches the rest from another tab
        tab.until("document.querySelector('#state-text').textContent === 'token wanted'")
        tab.do("Input.insertText", text=TOKEN[::-1][5:])
        tab.press("Enter")
        tab.until(LIVE)


def test_a_token_given_while_a_request_without_it_is_under_way_counts(browser: Browser, guarded: Running) -> None:
    slow = """(() => {
        const real = window.fetch;
        window.fetch = async (...request) => {
            window.fetch = real;
            const reply = await real(...request);
            await new Promise((resolve) => { window.arrive = resolve; });
            return reply;
        };
        document.dispatchEvent(new Event('visibilitychange'));
    })()"""
    with browser.tab() as tab:
        tab.go(guarded.admin)
        tab.until("document.querySelector('#token')?.open")
        tab.js(slow)
        tab.until("window.arrive !== undefined")
        give_token(tab, TOKEN)
        tab.until("!document.querySelector('#token').open")
        tab.js("window.arrive()")
        tab.until(LIVE)


def test_a_redis_that_does_not_answer_is_a_banner(
    browser: Browser, new_engine: Callable[..., Engine], capsys: pytest.CaptureFixture[str]
) -> None:
    engine = new_engine()
    banner = "document.querySelector('#notice-ready')"
    quiet = ("--upstream", engine.url, "--upstream-silence", "1s", "--policy", "none")
    with serve(*quiet) as running, browser.tab(PHONE) as tab:
        tab.go(running.ready().admin)
        tab.until(f"{LIVE} && !{banner}")
        assert tab.text("#notice-counted").startswith("Keyrail counts no keys under the policy none.")
        engine.freeze()
        try:
            tab.until(f"{banner}?.textContent.includes('Redis has not answered since 2')")
            assert tab.js("document.title") == "Not ready · Keyrail"
            assert tab.js(f"{banner}.closest('[role=alert]') !== null")
            assert faint(tab) == []
            assert main(["top", "--once", "--admin", running.admin]) == 0
            lines = capsys.readouterr().out.splitlines()
            assert lines[0].endswith(", NOT READY")
            assert re.search(r"Redis has not answered since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", lines[1])
        finally:
            engine.thaw()
        tab.until(f"!{banner}")
        assert tab.js("document.title") != "Not ready · Keyrail"


@pytest.mark.parametrize("address", ["#window=7", "#route=gone", "#route=gone&window=x&key=%00%ff"])
def test_an_address_that_names_what_is_not_there(
    browser: Browser, running: Running, traffic: Callable[[], None], address: str
) -> None:
    with browser.tab() as tab:
        shown(tab, running, traffic, f"/{address}")
        assert tab.js("document.querySelector('#windows input:checked').value") == "60"
        assert tab.js("document.querySelectorAll('#notices *').length") == 0


@contextmanager
def used(browser: Browser, guarded: Running, *keys: bytes | str) -> Iterator[Tab]:
    """The page while only these keys are used, once it shows all of them."""
    with browser.tab() as tab, guarded.wire() as wire:

        def use() -> None:
            wire.send(b"".join(pack("GET", key) for key in keys))
            wire.frames(len(keys))

        tab.go(guarded.admin)
        give_token(tab, TOKEN)
        tab.until(f"document.querySelectorAll('#keys-table button.key').length === {len(keys)}", use)
        yield tab


HOSTILE = {
    b"<script>pwned=1</script>:<b>": "<script>pwned=1</script>:<b>",
    b"bin\x00\xff\x1b[31m": r"bin\x00\xff\x1b[31m",
    "שלום:עולם:".encode() + b"x" * 30: "שלום:עולם:" + "x" * 30,
    "a\u202eb".encode(): r"a\xe2\x80\xaeb",
    "鍵🔑".encode() * 30: "鍵🔑" * 30,
    b"  two  spaces  ": "  two  spaces  ",
}


def test_a_key_is_shown_as_it_is_called_whatever_is_in_it(browser: Browser, guarded: Running) -> None:
    find = "[...document.querySelectorAll('#keys-table button.key')].find((each) => each.textContent === %s)"
    with used(browser, guarded, *HOSTILE) as tab:
        for name in HOSTILE.values():
            button = find % json.dumps(name)
            assert tab.js(f"{button} !== undefined"), name
            assert tab.js(f"{button}.title") == name
            tab.js(f"{button}.click()")
            assert tab.text("#details-key") == name
            tab.press("Escape")
            tab.until("!document.querySelector('#details').open")
        assert tab.js("window.pwned") is None


def test_keys_that_differ_in_their_last_part_can_be_told_apart(browser: Browser, guarded: Running) -> None:
    names = [f"cache:catalog:product:europe:germany:stock-by-warehouse:{number}" for number in (8841, 8842)]
    ends = """[...document.querySelectorAll('%s .key[data-cut] > :last-child')]
        .filter((end) => end.scrollWidth <= end.clientWidth && end.offsetWidth > 20)
        .map((end) => end.textContent)"""
    with used(browser, guarded, *names) as tab:
        for width in (1600, 1280, 768, 390, 320):
            tab.resize(width, 800)
            for table in ("#keys-table", "#slots-table")[: 1 if width < 360 else 2]:
                assert sorted(tab.js(ends % table)) == ["rehouse:8841", "rehouse:8842"], (width, table)


def test_the_drawer_is_cut_off_at_no_width(browser: Browser, guarded: Running) -> None:
    outside = """(() => {
        const drawer = document.querySelector('#details');
        const begins = drawer.getBoundingClientRect().left;
        const left = Math.max(0, begins);
        const right = Math.min(begins + drawer.clientWidth, document.documentElement.clientWidth);
        return [...drawer.querySelectorAll('*')]
            .filter((each) => each.checkVisibility())
            .map((each) => [each.id || each.className || each.tagName, each.getBoundingClientRect()])
            .filter(([, box]) => box.right > right + 0.5 || box.left < left)
            .map(([name]) => name);
    })()"""
    last = "document.querySelector('#remedy-do')"
    with used(browser, guarded, "k" * 200) as tab:
        tab.click(TOP)
        tab.until("document.querySelector('#details').open")
        for width in (1280, 768, 561, 560, 430, 390, 360, 320):
            tab.resize(width, 700)
            assert tab.js(outside) == [], width
            assert tab.js(f"{last}.scrollIntoView(), {last}.getBoundingClientRect().bottom <= innerHeight"), width


USABLE = {"button", "radio", "combobox", "link", "textbox", "table", "dialog"}


def named(tab: Tab) -> list[tuple[str, str]]:
    """The roles and names that a screen reader tells; whatever can be used has one."""
    tab.do("Accessibility.enable")
    nodes = [each for each in tab.do("Accessibility.getFullAXTree")["nodes"] if not each["ignored"]]
    found = [(each["role"]["value"], each.get("name", {}).get("value", "")) for each in nodes if "role" in each]
    assert [role for role, name in found if role in USABLE and not name.strip()] == []
    return found


def test_whatever_can_be_used_has_a_name_and_the_keyboard_reaches_it(
    browser: Browser, running: Running, traffic: Callable[[], None]
) -> None:
    with browser.tab() as tab:
        shown(tab, running, traffic)
        assert {"button", "radio", "table"} <= {role for role, _ in named(tab)}
        reached = []
        for _ in range(60):
            tab.press("Tab")
            reached.append(tab.js("document.activeElement.textContent || document.activeElement.name"))
        assert reached[0] == "Skip to the busiest keys"
        order = [reached.index(each) for each in ("window", "Pause", "Share", HOT)]
        assert order == sorted(order)
        tab.js(f"document.querySelector({json.dumps(TOP)}).focus()")
        tab.press("Enter")
        tab.until("document.querySelector('#details').open")
        for _ in range(30):
            tab.press("Tab")
            inside = "document.activeElement === document.body || document.activeElement.closest('#details') !== null"
            assert tab.js(inside), "the focus stays in the drawer"
        assert "dialog" in {role for role, _ in named(tab)}
