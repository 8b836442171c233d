"""From a hot key to its cap: the incident advises a remedy, and the remedy applies in all workers, through a reload,
the death of workers and a restart, until it is undone or over."""

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from tests.conftest import Fleet
from tests.resp import Wire, eventually, pack
from tests.server.running import Running, serve, ticks

KEY = "product:8841:stock"
POLICY = """
keyrail: 1
alerts: {hot_key: {share: 50%, rate: 10/s}}
apps: {checkout: {match: {client_name: checkout}}}
rules: {}
"""


@pytest.fixture(scope="module")
def upstream(fleet: Fleet) -> str:
    return fleet.engine("valkey-9.1", "server").url


@pytest.fixture(scope="module")
def arguments(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("remedies")
    (folder / "policy.yaml").write_text(POLICY)
    files = {"--policy": "policy.yaml", "--state-dir": "state", "--incidents": "incidents"}
    named = [text for option, name in files.items() for text in (option, str(folder / name))]
    return ["--upstream", upstream, "--workers", "2", "--watch", "off", *named]


@pytest.fixture(scope="module")
def running(arguments: list[str]) -> Iterator[Running]:
    with serve(*arguments) as running:
        yield running.ready()


def checkout(running: Running) -> Wire:
    wire = running.wire()
    assert wire.ask("CLIENT", "SETNAME", "checkout") == b"+OK\r\n"
    return wire


def capped(running: Running, key: str = KEY) -> list[bool]:
    """Whether checkout's reads of the key are refused, on connections enough to meet both workers."""
    found = []
    for _ in range(8):
        with checkout(running) as wire:
            wire.send(pack("GET", key) * 10)
            found.append(any(frame.startswith(b"-DENIED keyrail/remedy-") for frame in wire.frames(10)))
    return found


def order(running: Running, **order: object) -> tuple[int, Any]:
    body = {"key": KEY, "app": "checkout", "rate": "2/h", "because": "INC-1", **order}
    status, text = running.http("/remedies", {name: each for name, each in body.items() if each is not None})
    return status, json.loads(text)


def undo(running: Running, number: int) -> int:
    return running.http(f"/remedies/{number}", method="DELETE")[0]


@contextmanager
def read_all_the_time(running: Running) -> Iterator[None]:
    """An incident is over some seconds after its key was hot, so it stays hot."""
    over = threading.Event()

    def read() -> None:
        with checkout(running) as wire:
            while not over.wait(0.01):
                wire.send(pack("GET", KEY) * 20)
                wire.frames(20)

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            yield
        finally:
            over.set()
        reading.result()


def begins_and_is_advised_about(running: Running, told: Callable[..., str]) -> None:
    """An incident begins, and the command line tells of it while it lasts."""
    incident: dict[str, Any] = {}
    for _ in ticks():
        found = running.json("/incidents")["incidents"]
        if found:
            incident = found[0]
            break
    assert (incident["id"], incident["kind"], incident["subject"]) == ("INC-1", "hot-key", KEY)
    assert incident["lines"][0].startswith(f"{KEY} MISSING ")
    assert incident["lines"][-1].startswith(f"remedy: keyrail remedy {KEY} --cap checkout=")
    assert incident["lines"][-1].endswith(f" --because INC-1 --admin {running.admin}")
    running.await_line(r"^keyrail: incident INC-1 on route default: product:8841:stock MISSING")
    assert running.metric('keyrail_incidents_total{kind="hot-key",route="default"}') == 1

    head = f"INC-1 hot-key on route default, since {incident['began']}, OPEN"
    assert told("incidents").startswith(f"{head}\n  {KEY} MISSING ")
    assert json.loads(told("incidents", "--json"))["incidents"][0]["id"] == "INC-1"
    trial = told("remedy", KEY, "--cap", "checkout=2/h", "--because", "INC-1", "--dry-run")
    tried = re.search(r"refused (\S+) of (\S+) commands/s of app checkout", trial)
    assert tried is not None
    assert 50 < float(tried[1]) <= float(tried[2])


def test_from_the_incident_to_the_cap_and_back(
    running: Running, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*words: str) -> str:
        assert main([*words, "--admin", running.admin]) == 0
        return capsys.readouterr().out

    with read_all_the_time(running):
        begins_and_is_advised_about(running, told)
    cap = "--cap", "checkout=2/h", "--because", "INC-1"
    assert not any(capped(running))
    assert told("remedy", "list") == "there is no remedy\n"
    done = told("remedy", "--incident", "INC-1", *cap)
    assert done.startswith(f"remedy 1: {KEY} is capped at 2/h for checkout until 20")
    assert done.endswith("undo it with: keyrail remedy undo 1\n")
    assert all(capped(running))
    assert not any(capped(running, "product:8842:stock")), "no other key"
    with running.wire() as wire:
        assert all(wire.ask("GET", KEY) == b"$-1\r\n" for _ in range(5)), "no other app"
    with checkout(running) as wire:
        error = wire.ask("GET", KEY)
        assert b"more than 2 commands/h from this app, and an operator has capped this key until 20" in error
        assert b"(INC-1); retry after" in error
    running.await_line(r"^keyrail: remedy-1: product:8841:stock capped at 2 commands in 3600 s for app checkout until")

    for pid in running.workers():
        os.kill(pid, signal.SIGKILL)
    running.await_metric("keyrail_worker_restarts_total", 2)
    running.await_http("/readyz", 200)
    assert all(capped(running)), "new workers know it"
    policy = Path(arguments[arguments.index("--policy") + 1])
    assert json.loads(running.http("/policy/reload", {})[1]) == {"generation": 2}, "the files say the same"
    policy.write_text(POLICY.replace("{}", "{walks: {refuse: [KEYS]}}"))
    assert json.loads(running.http("/policy/reload", {})[1]) == {"generation": 3}
    assert all(capped(running)), "a reload leaves it where it is"
    assert running.http("/policy/kill-switch", {"switch": "on"})[0] == 200
    assert not any(capped(running)), "the kill switch pauses it"
    assert running.http("/policy/kill-switch", {"switch": "off"})[0] == 200
    assert all(capped(running))
    (standing,) = running.json("/remedies")["remedies"]
    assert (standing["id"], standing["because"]) == (1, "INC-1")
    eventually(lambda: running.json("/remedies")["remedies"][0]["refused"] > 0)
    assert re.search(r" \(INC-1\); [1-9]\d* refused so far$", told("remedy", "list"), re.MULTILINE)
    assert told("remedy", "undo", "1") == "remedy 1 is undone\n"
    assert not any(capped(running))
    assert main(["remedy", "undo", "1", "--admin", running.admin]) == 1
    assert main(["remedy", KEY, "--admin", running.admin]) == 2
    assert "there is no remedy 1\nkeyrail: expected KEY --cap APP=RATE" in capsys.readouterr().err
    assert (undo(running, 1), running.json("/remedies")) == (404, {"remedies": [], "survive_restart": True})


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"app": "nobody"}, "app: expected one of all, checkout, got 'nobody'"),
        ({"app": ["all"]}, "app: expected one of all, checkout, got ['all']"),
        ({"rate": "5"}, "rate: expected a number of commands"),
        ({"for": "25h"}, "for: expected at most 24h"),
        ({"because": " "}, "because: expected a reason"),
        ({"because": "x\u001b[31m"}, "because: expected a line"),
        ({"incident": "INC-1"}, "expected either a key or an incident"),
        ({"key": None, "incident": "INC-99"}, "Keyrail no longer knows the key of 'INC-99'"),
        ({"key": 5}, "key: expected a key"),
        ({"route": "other"}, "route: expected one of default"),
        ({"until": "noon"}, "unknown key 'until'"),
        ({"dry_run": 1}, "dry_run: expected true or false"),
    ],
)
def test_an_order_that_makes_no_sense(running: Running, wrong: dict[str, object], error: str) -> None:
    status, told = order(running, **wrong)
    assert status == 400
    assert error in told["error"]


def test_it_survives_a_restart_and_ends_by_itself(running: Running, arguments: list[str]) -> None:
    number = order(running, app="all", rate="1/h")[1]["id"]
    assert running.stop() == 0
    with serve(*arguments) as again:
        again.ready()
        assert f"remedy-{number}: {KEY} capped at 1 commands in 3600 s for all until" in again.stderr
        assert all(capped(again))
        with again.wire() as wire:
            assert wire.ask("GET", KEY).startswith(b"-DENIED keyrail/remedy-")
        assert again.json("/incidents")["incidents"][-1]["id"] == "INC-1"
        assert undo(again, number) == 200
        assert order(again, **{"for": "1s"})[1]["id"] == number + 1, "a number is used once"
        again.await_line(rf"^keyrail: remedy-{number + 1} is over \(INC-1\)$")
        assert not any(capped(again))
