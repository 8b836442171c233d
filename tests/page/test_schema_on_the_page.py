"""The keys that the policy knows, at /schema and on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page.browser import PHONE, WIDE, Browser
from tests.page.watching import LIVE, faint
from tests.server.running import serve

POLICY = """
keyrail: 1
defaults: {mode: "off"}
apps: {shop: {match: {user: shop}}}
schema:
  cart:
    key: "cart:{user:int}"
    type: hash
    ttl: {default: 90m, max: 7d}
    fields: {items: int, "note:*": string}
    app: shop
    about: "<img src=x onerror=pwned=1>"
    example: cart:42
    relates_to: [user]
  user: {key: "user:{id:int}", ttl: none}
rules: {t: {schema: type}, l: {schema: ttl}, f: {schema: fields}}
"""
ROWS = "[...document.querySelectorAll('#schema-entries tbody tr')].map((row) => row.textContent)"


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return str(file)


def test_the_entries_are_told(upstream: str, policy: str) -> None:
    with serve("--upstream", upstream, "--policy", policy) as running:
        (route,) = running.ready().json("/schema")["routes"]
        cart, user = route["entries"]
        assert (cart["title"], cart["ttl"]) == ("shop/cart", {"default": 5400, "max": 604_800})
        assert cart["fields"] == {"items": "int", "note:*": "string"}
        assert user == {"title": "user", "key": "user:{id:int}", "ttl": "none"}


def test_they_can_be_read_and_filtered_on_the_page(browser: Browser, upstream: str, policy: str) -> None:
    with serve("--upstream", upstream, "--policy", policy) as running, browser.tab() as tab:
        tab.go(running.ready().admin)
        tab.until(f"{LIVE} && {ROWS}.length === 2")
        text = tab.js("document.querySelector('#schema').textContent")
        for said in (
            "cart:{user:int}",
            "hash of items int, note:* string",
            "1h30m; at most 7d",
            "cart:42",
            "<img src=x",
        ):
            assert said in text
        assert tab.js("window.pwned") is None
        assert faint(tab) == []
        wide = "[...document.querySelectorAll('#schema .scroll')].some((it) => it.scrollWidth > it.clientWidth)"
        for width, height in (PHONE, (560, 800), (860, 800), WIDE):
            tab.resize(width, height)
            assert not tab.js(wide), width
        tab.js("document.querySelector('#report-filter').value = 'shop note'")
        tab.js("document.querySelector('#report-filter').dispatchEvent(new Event('input'))")
        tab.until(f"{ROWS}.length === 1 && {ROWS}[0].startsWith('cart:')")
        assert tab.complaints == []


def test_without_a_schema_there_is_nothing_to_see(browser: Browser, upstream: str) -> None:
    with serve("--upstream", upstream) as running, browser.tab() as tab:
        tab.go(running.ready().admin)
        tab.until(f"{LIVE} && document.querySelector('#facts').textContent.includes('worker')")
        assert tab.js("document.querySelector('#schema').hidden")
