"""Keys of tenants on the page: under the name in Redis, and beside it the one that the tenant knows."""

from pathlib import Path

from tests.conftest import Fleet
from tests.page.browser import Browser
from tests.page.watching import LIVE, faint
from tests.resp import pack
from tests.server.running import serve
from tests.tenants.test_against_engines import login, prepared

POLICY = """
keyrail: 1
apps: {acme: {match: {user: acme}}}
tenants: {prefix: "{app}:", apps: [acme]}
rules: {walks: {refuse: [APPEND], mode: enforce}}
"""
OWN = "cart:1 of tenant acme"
KEYS = "[...document.querySelectorAll('#keys-table tbody tr')]"
TENANTS = f"{KEYS}.map((row) => ['button.key', '.tenant'].map((each) => row.querySelector(each).textContent))"


def test_both_names_are_shown(browser: Browser, fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    engine = prepared(fleet.engine("valkey-9.1", "server"))
    arguments = ("--upstream", engine.url, "--policy", str(tmp_path / "policy.yaml"), "--traces", "1000")
    with serve(*arguments, "--workers", "1") as running:
        running.ready()
        with browser.tab() as tab, running.wire() as acme, running.wire() as nobody:
            login(acme, "acme")

            def traffic() -> None:
                acme.send(pack("GET", "cart:1") * 20)
                acme.frames(20)
                acme.ask("APPEND", "cart:1", "x")
                nobody.ask("GET", "other")

            order = {"key": "acme:cart:1", "app": "acme", "rate": "9000/s", "because": "a test"}
            assert running.http("/remedies", order)[0] == 200
            tab.go(running.admin)
            tab.resize(1280, 900)
            tab.until(f"{LIVE} && {KEYS}.filter((row) => row.querySelector('button.key')).length === 2", traffic)
            assert {tuple(pair) for pair in tab.js(TENANTS)} == {("acme:cart:1", OWN), ("other", "")}
            for table in ("#slow-table", "#slots-table"):
                tab.until(f"document.querySelector('{table}').textContent.includes('acme:cart:1 ({OWN})')", traffic)
            hashed = r"/acme:cart:{int}#\w+ \(cart:{int}#\w+ of tenant acme\)/"
            tab.until(f"{hashed}.test(document.querySelector('#violations-table').textContent)", traffic)
            tab.until(f"document.querySelector('#patterns-table td[title=\"acme:cart:1 ({OWN})\"]') !== null", traffic)
            tab.js("document.querySelector('#keys-table button.key[title=\"acme:cart:1\"]').click()")
            tab.until("document.querySelector('#details').open")
            assert tab.text("#details-key") == "acme:cart:1"
            assert f"For its tenant{OWN}" in tab.js("document.querySelector('#details-facts').textContent")
            standing = tab.js("document.querySelector('#remedy-standing').textContent")
            assert standing.startswith(f"remedy 1: acme:cart:1 ({OWN}) at most 9000/s for acme, until ")
            assert faint(tab) == []
            assert tab.complaints == []
