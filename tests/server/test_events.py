"""The events that feed the page: the newest violations, and one event a second for all viewers."""

import json
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from proxy.server.admin.events import MOST_VIEWERS, Events
from proxy.server.admin.page.files import Page
from proxy.server.admin.state import AdminState
from proxy.server.violations import MOST_KEPT, Violations
from tests.conftest import Fleet
from tests.resp import PATIENCE_SECONDS, pack
from tests.server.running import Running, events, serve, stream, ticks

POLICY = """
keyrail: 1
rules:
  walks: {refuse: [KEYS], mode: enforce}
  docs: {compress: {keys: ["doc:*"]}, mode: enforce}
"""
SECRET = "a-value-that-must-not-be-told"


def test_the_newest_violations_are_kept_for_each_route() -> None:
    violations = Violations(2, None)
    violations.take(0, [b"%d" % number for number in range(MOST_KEPT + 5)])
    violations.take(1, [b"other"])
    number, lines = violations.since(0, 0)
    assert (number, len(lines), lines[0], lines[-1]) == (MOST_KEPT + 5, MOST_KEPT, b"5", b"%d" % (MOST_KEPT + 4))
    violations.take(0, [b"new"])
    assert violations.since(0, number) == (number + 1, [b"new"])
    assert violations.since(0, number + 1) == (number + 1, [])
    assert violations.since(1, 0) == (1, [b"other"])


def test_an_overview_is_made_once_for_all_viewers(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def overview(state: AdminState, route: int, window: int) -> dict[str, Any]:
        made.append((route, window))
        return {}

    monkeypatch.setattr("proxy.server.admin.events.overview", overview)
    events = Events(AdminState.__new__(AdminState))
    for second in (1, 1, 2):
        assert events.overview(0, 60, second) == b"event: overview\ndata: {}\n\n"
    events.overview(0, 10, 2)
    assert made == [(0, 60), (0, 60), (0, 10)]


@pytest.fixture(scope="module")
def running(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    policy = tmp_path_factory.mktemp("events") / "policy.yaml"
    policy.write_text(POLICY)
    upstream = fleet.engine("valkey-9.1", "server").url
    with serve("--upstream", upstream, "--policy", str(policy), "--workers", "2") as started:
        yield started.ready()


def test_everything_that_the_page_shows(running: Running) -> None:
    with running.wire() as wire:
        wire.ask("CLIENT", "SETNAME", "hammer")
        for _ in range(20):
            wire.ask("SET", "product:1:stock", SECRET)
        wire.ask("SET", "doc:1", "plain text " * 1000)
        wire.send(pack("KEYS", "*"))
        wire.frames(1)
        told: dict[str, Any] = {}
        overview: Any = None
        with stream(running) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            for name, data in events(answer):
                assert SECRET not in json.dumps(data)
                told[name] = data
                overview = told.get("overview")
                if overview is None or "violations" not in told:
                    continue
                keys, rules = overview["hotkeys"]["keys"], overview["policy"]["rules"]
                if keys and keys[0]["clients"] and rules[0]["hits"] and rules[1]["compressed"]:
                    break
    assert set(told) == {"history", "violations", "overview"}
    assert set(told["history"]) == {"seconds", "tens", "keys"}
    assert (overview["route"], overview["routes"], overview["window"]) == ("default", ["default"], 10)
    assert overview["keyrail"]["reasons"] == []
    assert overview["policy"]["generation"] == 1
    assert overview["policy"]["kill_switch"]["on"] is False
    rule, docs = overview["policy"]["rules"]
    assert (rule["rule"], rule["mode"], list(rule["hits"])) == ("walks", "enforce", ["enforce refused"])
    assert rule["compressed"] is None
    assert docs["compressed"]["saved_bytes"] > 9000
    assert docs["compressed"]["ratio"] > 10
    assert docs["compressed"]["seconds"] > 0 == docs["compressed"]["decompressed_seconds"]
    key = overview["hotkeys"]["keys"][0]
    assert (key["key"], key["writes"], key["clients"][0]["client_name"]) == ("product:1:stock", 20, "hammer")
    assert len(overview["slots"]["heat"]) == 256
    assert {violation["rule"] for violation in told["violations"]} == {"walks"}


def test_violations_are_told_without_a_log_of_them(running: Running) -> None:
    with running.wire() as wire:
        wire.send(pack("KEYS", SECRET))
        wire.frames(1)
    found: list[dict[str, Any]] = []
    for _ in ticks():
        found = running.json("/violations")["violations"]
        if found:
            break
    assert (found[0]["rule"], found[0]["command"], found[0]["what"]) == ("walks", "KEYS", "refused")
    assert SECRET not in json.dumps(found)
    assert running.json("/violations?route=default")["violations"][-1] == found[-1]
    assert running.http("/violations?route=none")[0] == 400
    assert running.metric('keyrail_violations_dropped_total{route="default",rule="walks"}') == -1


@pytest.mark.parametrize("query", ["window=0", "window=99999", "route=none", "count=3"])
def test_what_is_asked_wrongly(running: Running, query: str) -> None:
    status, text = running.http(f"/events?{query}")
    assert (status, list(json.loads(text))) == (400, ["error"])


def test_the_page_is_for_browsers(running: Running) -> None:
    def get(path: str, accept: str) -> Any:
        return urllib.request.urlopen(urllib.request.Request(running.admin + path, headers={"Accept": accept}))

    with get("/", "*/*") as plain:
        assert plain.read().startswith(b"keyrail: /healthz")
    with get("/", "text/html,*/*") as page:
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        text = page.read().decode()
    assert "://" not in text.replace("http://www.w3.org/2000/svg", ""), "nothing comes from anywhere else"
    for path in ("page.js", "page.css"):
        assert f'"/page/{path}"' in text
        with get(f"/page/{path}", "*/*") as asset:
            assert asset.headers["X-Content-Type-Options"] == "nosniff"
    assert running.http("/page/files.py")[0] == running.http("/page/none.js")[0] == 404


def test_nothing_untrusted_can_become_markup() -> None:
    for name, text in Page().texts.items():
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "setHTML", "Function("):
            assert way not in text, name


def test_there_are_only_so_many_viewers_and_the_end_waits_for_none(fleet: Fleet) -> None:
    with serve("--upstream", fleet.engine("valkey-9.1", "server").url) as running:
        running.ready()
        host, port = running.admin.removeprefix("http://").split(":")
        viewers = [socket.create_connection((host, int(port)), PATIENCE_SECONDS) for _ in range(MOST_VIEWERS)]
        for viewer in viewers:
            viewer.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert viewer.recv(12) == b"HTTP/1.1 200"
        assert running.http("/events")[0] == 503
        viewers.pop().close()
        status = b""
        for _ in ticks():
            # The place is free as soon as the loss is noticed.
            with closing(socket.create_connection((host, int(port)), PATIENCE_SECONDS)) as another:
                another.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                status = another.recv(12)
            if status == b"HTTP/1.1 200":
                break
        assert status == b"HTTP/1.1 200"
        assert running.stop() == 0
        for viewer in viewers:
            viewer.close()
