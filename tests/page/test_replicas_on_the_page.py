"""Replicas on the page: who answers reads, how far behind they are, and which keys they relieve the primary of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import kind_named
from tests.page.browser import Browser
from tests.page.watching import LIVE, faint
from tests.replicas.lab import Lab
from tests.resp import pack
from tests.server.running import serve

ROWS = "[...document.querySelectorAll('#nodes-table tbody tr')].map((row) => row.textContent)"
TAG = "document.querySelector('#keys-table tr[data-moved] .pair .tag[data-kind=moved]')"
TAGS = "document.querySelectorAll('#keys-table .pair .tag[data-kind=moved]:not([hidden])')"
POLICY = "keyrail: 1\nrules: {shared: {replica_reads: {keys: ['a:*'], max_lag: 5s}, mode: enforce}}\n"


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(kind_named("redis-7.0")) as started:
        yield started


def test_replicas_and_the_keys_that_they_answer_are_shown(browser: Browser, lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    replicas = ",".join(f"127.0.0.1:{each.port}" for each in lab.replicas)
    with serve(
        "--upstream", f"{lab.primary.url}?replicas={replicas}", "--policy", str(tmp_path / "policy.yaml")
    ) as started:
        running = started.ready()
        with browser.tab() as tab, running.wire() as wire:

            def traffic() -> None:
                wire.send(pack("GET", "a:1") * 20)
                wire.frames(20)
                wire.ask("GET", "x")

            tab.go(running.admin)
            tab.resize(1280, 900)
            tab.until(f"{LIVE} && {ROWS}.length === 3", traffic)
            tab.until(f"{ROWS}.some((row) => /replica of n1ok.*[0-9,]+, 100\\s%/.test(row))", traffic)
            tab.until(f"/^replicas [0-9.]+ %$/.test({TAG}?.textContent)", traffic)
            assert (
                tab.js("document.querySelectorAll('#keys-table .pair .tag[data-kind=moved]:not([hidden])').length") == 1
            )
            assert faint(tab) == []
            reader = next(each for each in lab.replicas if each.calls("get"))
            reader.kill()
            tab.until(f"{ROWS}.some((row) => /replica of n1lost.*failed [1-9][0-9]*×, none now/.test(row))", traffic)
            assert tab.complaints == []
