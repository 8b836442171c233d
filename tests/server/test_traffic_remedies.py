"""Remedies about a client, an app or a command: what they are about is refused, closed or capped, in all workers,
through a reload, the death of workers and a restart, and nothing else is."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from proxy.traffic.client_ids import id_of
from tests.conftest import Fleet, seeds
from tests.resp import Closed, Wire, eventually, pack
from tests.server.running import Running, serve

POLICY = """
keyrail: 1
apps: {checkout: {match: {client_name: checkout}}}
rules:
  scripts: {mode: enforce, scripts: {commands: follow_rules, dynamic_calls: allow}}
"""
NAMES = ("checkout", "batch", "batch-2", "")
"""Of clients; the first is the one of the app."""
COMMANDS: dict[str, list[str]] = {
    "GET": ["GET", "k"],
    "SET": ["SET", "k", "v"],
    "KEYS": ["KEYS", "none*"],
    "CONFIG GET": ["CONFIG", "GET", "hz"],
    "CONFIG SET": ["CONFIG", "SET", "hz", "10"],
    "EVAL": ["EVAL", "return redis.call('GET', KEYS[1])", "1", "k"],
    "PING": ["PING"],
}
FREE = {"PING"}


def client_id(name: str) -> str:
    return id_of(("default", name, "127.0.0.1"))


@dataclass
class Wanted:
    """One order, and what it is about."""

    name: str | None
    app: str | None
    command: str | None
    action: str

    @classmethod
    def any(cls, chance: random.Random) -> Wanted:
        while True:
            made = cls(
                chance.choice([None, *NAMES]),
                chance.choice([None, "checkout"]),
                chance.choice([None, None, "KEYS", "config", "CONFIG GET", "get"]),
                chance.choice(["refuse", "close", "rate"]),
            )
            if made.name is not None or made.app or made.command:
                return made

    def order(self) -> dict[str, object]:
        order: dict[str, object] = {"app": self.app, "command": self.command}
        order["client"] = None if self.name is None else client_id(self.name)
        order[self.action] = "1/h" if self.action == "rate" else True
        return {key: value for key, value in order.items() if value is not None} | {"because": "INC-1"}

    def is_about(self, name: str, command: str) -> bool:
        client = self.name in (None, name) and (self.app is None or name == NAMES[0])
        if self.command is None:
            return client and command not in FREE
        calls = command == "EVAL" and self.command == "get" and self.action != "rate"
        named = self.command.upper() in (command, command.partition(" ")[0])
        return client and (named or calls)


@pytest.fixture(scope="module")
def arguments(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("remedies")
    (folder / "policy.yaml").write_text(POLICY)
    files = ["--policy", str(folder / "policy.yaml"), "--state-dir", str(folder / "state")]
    return ["--upstream", fleet.engine("valkey-9.1", "server").url, "--workers", "2", "--watch", "off", *files]


@pytest.fixture(scope="module")
def running(arguments: list[str]) -> Iterator[Running]:
    with serve(*arguments) as running:
        yield running.ready()


def client(running: Running, name: str) -> Wire:
    wire = running.wire()
    if name:
        assert wire.ask("CLIENT", "SETNAME", name) == b"+OK\r\n"
    return wire


def put(running: Running, order: dict[str, object]) -> dict[str, Any]:
    status, text = running.http("/remedies", order)
    assert status == 200, text
    told = json.loads(text)
    assert isinstance(told, dict)
    return told


def undo(running: Running, number: int) -> None:
    assert running.http(f"/remedies/{number}", method="DELETE")[0] == 200


def seen(running: Running) -> None:
    """Clients are named by what figures have shown of them."""
    wanted = {client_id(name) for name in NAMES}
    with ExitStack() as stack:
        wires = [stack.enter_context(client(running, name)) for name in NAMES]

        def all_are_there() -> bool:
            for wire in wires:
                wire.ask("GET", "k")
            return wanted <= {each["id"] for each in running.json("/clients?window=600")["clients"]}

        eventually(all_are_there)


def denied(wire: Wire, number: int, command: str, times: int = 1) -> tuple[bool, bool]:
    """Whether it is refused, and whether the client is closed then."""
    found = False
    try:
        wire.send(pack(*COMMANDS[command]) * times)
        for _ in range(times):
            begins = b"-DENIED keyrail/" if command == "EVAL" else b"-DENIED keyrail/remedy-%d: " % number
            found |= wire.frame().startswith(begins)
        wire.ask("PING")
    except (Closed, ConnectionError):
        return found, True
    return found, False


def check(running: Running, number: int, wanted: Wanted, commands: list[str]) -> None:
    for name in NAMES:
        for command in commands:
            about = wanted.is_about(name, command)
            for _ in range(3):  # connections enough to meet both workers
                with client(running, name) as wire:
                    found, closed = denied(wire, number, command, 8 if wanted.action == "rate" else 1)
                calls = command == "EVAL" and wanted.command is not None
                assert found == about, (wanted, name, command)
                assert closed == (about and wanted.action == "close" and not calls), (wanted, name, command)


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_what_it_is_about_is_stopped_and_nothing_else(running: Running, seed: int) -> None:
    chance = random.Random(seed)
    wanted = Wanted.any(chance)
    seen(running)
    commands = chance.sample(list(COMMANDS), 3)
    told = put(running, wanted.order())
    check(running, told["id"], wanted, commands)
    undo(running, told["id"])
    with client(running, NAMES[0]) as wire:
        assert not any(denied(wire, told["id"], command)[0] for command in commands)


def test_a_reload_workers_and_a_restart_keep_it(
    running: Running, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*words: str) -> str:
        assert main(["remedy", *words, "--admin", running.admin]) == 0
        return capsys.readouterr().out

    seen(running)
    batch, because = client_id("batch"), ("--because", "INC-1")
    trial = told("--client", batch, "--cap", "1/h", *because, "--dry-run")
    assert f"commands/s of client {batch}\ndry run: nothing has changed\n" in trial
    done = told("--client", batch, "--command", "keys", "--refuse", *because)
    assert f": KEYS of client {batch} is refused until 20" in done
    number = int(done.split()[1].rstrip(":"))
    wanted = Wanted("batch", None, "KEYS", "refuse")
    check(running, number, wanted, ["KEYS", "GET"])
    with client(running, "batch") as wire:
        error = wire.ask("KEYS", "*")
        said = f"KEYS is refused, and an operator has refused KEYS of client {batch} until 20".encode()
        assert said in error
        assert b"(INC-1); ask the operators" in error
        assert wire.ask("EVAL", "return redis.call('KEYS', '*')", 0).startswith(b"-DENIED keyrail/")
        assert wire.ask("EVAL", "return redis.call('DBSIZE')", 0).startswith(b":")
    Path(arguments[arguments.index("--policy") + 1]).write_text(POLICY + "  slow: {refuse: [SORT]}\n")
    assert running.http("/policy/reload", {})[0] == 200
    check(running, number, wanted, ["KEYS"])
    for pid in running.workers():
        os.kill(pid, signal.SIGKILL)
    running.await_metric("keyrail_worker_restarts_total", 2)
    running.await_http("/readyz", 200)
    check(running, number, wanted, ["KEYS"])
    assert running.http("/policy/kill-switch", {"switch": "on"})[0] == 200
    with client(running, "batch") as wire:
        assert not denied(wire, number, "KEYS")[0], "the kill switch pauses it"
    assert running.http("/policy/kill-switch", {"switch": "off"})[0] == 200
    assert f"KEYS of client {batch} is refused" in told("list")
    assert running.stop() == 0
    with serve(*arguments) as again:
        again.ready()
        check(again, number, wanted, ["KEYS"])
        undo(again, number)
        told_id = put(again, {"app": "checkout", "close": True, "because": "x", "for": "1s"})["id"]
        assert told_id > number
        again.await_line(rf"^keyrail: remedy-{told_id} is over \(x\)$")
        check(again, told_id, Wanted("nobody", None, None, "refuse"), ["GET"])


def test_a_client_that_waits_is_closed_too(arguments: list[str], tmp_path: Path) -> None:
    with serve(*arguments[:-1], str(tmp_path / "state")) as running:
        running.ready()
        orders_without_sense_change_nothing(running)
        seen(running)
        with ExitStack() as stack:
            waiting, idle, other = (stack.enter_context(client(running, name)) for name in ("batch", "batch", ""))
            waiting.say("BLPOP", "nothing", 0)
            told = put(running, {"client": client_id("batch"), "close": True, "because": "x"})
            for wire in (waiting, idle):
                with pytest.raises((Closed, ConnectionError)):
                    wire.frame()
            assert other.ask("PING") == b"+PONG\r\n"
            undo(running, told["id"])


WRONG: list[tuple[dict[str, object], str]] = [
    ({}, "expected a key, an incident, a client, an app or a command"),
    ({"app": "all"}, "expected a key, an incident, a client, an app or a command"),
    ({"app": "nobody"}, "app: expected one of all, checkout"),
    ({"client": "c00000000"}, "client: expected an id that /clients shows"),
    ({"command": "KEY"}, "command: expected a command, such as KEYS or CONFIG SET"),
    ({"command": "KEYS", "refuse": False}, "expected one of refuse, close and rate"),
    ({"command": "KEYS", "close": True}, "expected one of refuse, close and rate"),
    ({"command": "KEYS", "rate": "1/s"}, "expected one of refuse, close and rate"),
    ({"command": "KEYS", "key": "k"}, "expected either a key, or a client, an app or a command"),
    ({"command": "KEYS", "because": ""}, "because: expected a reason"),
]


def orders_without_sense_change_nothing(running: Running) -> None:
    for wrong, error in WRONG:
        status, text = running.http("/remedies", {"refuse": True, "because": "x", **wrong})
        assert status == 400
        assert error in json.loads(text)["error"], wrong
    assert running.json("/remedies")["remedies"] == []
