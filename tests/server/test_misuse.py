"""Clients that hinder others, before a real engine: each is an incident that names it, and its remedy ends it."""

from __future__ import annotations

import shlex
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from tests.engines import Engine
from tests.resp import Wire, eventually, pack
from tests.server.running import Running, serve

BUSY = "local x = 0; for i = 1, 3000000 do x = x + i end; return x"
FILL = "for i = 1, 60000 do redis.call('SET', 'key:' .. i, i) end"

WHO = {"reconnects": "flapper", "keys-loop": "walker", "busy-client": "lua"}


@contextmanager
def all_the_time(*acts: Callable[[], object]) -> Iterator[None]:
    over = threading.Event()

    def repeat(act: Callable[[], object]) -> None:
        while not over.is_set():
            act()

    with ThreadPoolExecutor(len(acts)) as pool:
        running = [pool.submit(repeat, act) for act in acts]
        try:
            yield
        finally:
            over.set()
        for each in running:
            each.result()


def named(running: Running, name: str) -> Wire:
    wire = running.wire()
    assert wire.ask("CLIENT", "SETNAME", name) == b"+OK\r\n"
    return wire


def incidents(running: Running) -> dict[str, Any]:
    return {each["kind"]: each for each in running.json("/incidents")["incidents"] if each["ended"] is None}


@pytest.mark.long
@pytest.mark.parametrize("workers", [2, 1])
def test_each_is_an_incident_with_its_client_and_a_remedy(
    new_engine: Callable[..., Engine], tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: int
) -> None:
    engine = new_engine("valkey-9.1")
    engine.do("EVAL", FILL, 0)
    (tmp_path / "policy.yaml").write_text("keyrail: 1\nrules: {}\n")
    arguments = ["--upstream", engine.url, "--workers", str(workers), "--policy", str(tmp_path / "policy.yaml")]
    with serve(*arguments) as running:
        running.ready()
        web, walker, lua = (named(running, name) for name in ("web", "walker", "lua"))
        address = web.socket.getpeername()

        def reconnect() -> None:
            with socket.create_connection(address[:2]) as client:
                client.sendall(pack("CLIENT", "SETNAME", "flapper") + pack("GET", "key:1"))
                client.recv(100)

        acts = [
            lambda: web.value("GET", "key:2"),
            lambda: walker.value("KEYS", "none*"),
            lambda: lua.value("EVAL", BUSY, 0),
        ]
        with all_the_time(*acts, *[reconnect] * 12):
            eventually(lambda: incidents(running).keys() >= WHO.keys())
            (row,) = [each for each in running.json("/clients?window=5")["clients"] if each["client_name"] == "flapper"]
            assert row["connects"] > 20
        found = {kind: each for kind, each in incidents(running).items() if kind in WHO}
        assert {kind: each["client"]["client_name"] for kind, each in found.items()} == WHO
        assert running.metric('keyrail_incidents_open{kind="keys-loop",route="default"}') == 1
        for kind, command in (("keys-loop", ("KEYS", "none*")), ("busy-client", ("EVAL", BUSY, 0))):
            remedy = found[kind]["lines"][-1].removeprefix("remedy: keyrail ").replace("--cap", "--refuse #", 1)
            words = [word for word in shlex.split(remedy.replace(" # ", " ")) if not word.endswith("/s")]
            assert main(words) == 0
            with named(running, WHO[kind]) as wire:
                assert wire.ask(*command).startswith(b"-DENIED keyrail/remedy-")
        assert web.ask("KEYS", "none*") == b"*0\r\n"
        eventually(lambda: incidents(running)["keys-loop"]["remedies"] == [1])
        lines = incidents(running)["keys-loop"]["lines"]
        assert any(line.startswith("in force: remedy-1 refuses KEYS of client c") for line in lines)
        assert not any(line.startswith(("advice: ", "remedy: ")) for line in lines)
        assert "remedy 1: KEYS of client c" in capsys.readouterr().out
