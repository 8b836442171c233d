"""Five applications behind `observe`, which records every command: the report names each violation that is planted
among their traffic, however rare, with its rule, its owner, its client and the exact count. Then the same policy is
enforced: each planted violation is refused, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy_yaml.shipped import packaged
from proxy.server.evidence.diff import diff
from proxy.server.evidence.json_form import from_json
from proxy.server.evidence.learn.judging import loaded
from proxy.server.evidence.learn.learn import learn
from proxy.server.evidence.model import Evidence
from proxy.server.evidence.ready import Demand, readiness
from proxy.traffic.evidence_rows import EvidenceRows
from tests.conftest import Fleet, rest_is_long
from tests.resp import Closed, Wire, pack
from tests.server import learnable_traffic
from tests.server.running import Running, serve, ticks
from tests.server.test_learn import changed

APPS = ("checkout", "search", "sessions", "reports", "jobs")
CLIENTS = 4
AT_ONCE = 100
DAY, WEEK = 86_400, 7 * 86_400
MONDAY = 1_794_787_200
LIBRARIES = {"reports": "ioredis", "sessions": "node-redis"}
"""Applications in Node, if it is there."""
Commands = list[tuple[str, ...]]
Sent = dict[tuple[str, int], Commands]
"""By app and client."""
LIST = ", ".join(f"{app}: {{team: {app}-team, match: {{client_name: '{app}-*'}}}}" for app in APPS)


CONNECTING = {"CLIENT", "HELLO", "INFO", "COMMAND", "QUIT", "PING"}


class Planted(NamedTuple):
    """A violation: which client of which app sends it, and how often."""

    rule: str
    app: str
    client: int
    words: tuple[str, ...]
    times: int


PLANTED = (
    Planted("no-flush", "jobs", 1, ("FLUSHDB",), 1),  # one client only, once
    Planted("no-keyspace-walks", "reports", 0, ("KEYS", "user:*"), 7),
    Planted("no-server-control", "jobs", 2, ("CONFIG", "SET", "maxmemory-policy", "noeviction"), 1),
    Planted("no-unknown-commands", "search", 1, ("NOSUCHCOMMAND", "user:1:cart"), 2),
    Planted("scripts", "checkout", 0, ("EVAL", "return redis.call(KEYS[1], 1)", "1", "user:1"), 3),
    Planted("one-slot", "sessions", 2, ("MSET", "user:1:cart", "a", "user:2:cart", "b"), 5),
    Planted("key-names", "checkout", 3, ("SET", "basket", "1"), 9),
    Planted("key-words", "search", 0, ("GET", "app:temp:1"), 4),
    Planted("small-writes", "reports", 2, ("SET", "report:big:1", "x" * 20_000), 2),
    Planted("few-keys", "sessions", 1, ("MGET", *(f"user:{{7}}:{n}" for n in range(30))), 3),
    Planted("short-ranges", "jobs", 0, ("LRANGE", "queue:mail:1", "0", "4999"), 6),
    Planted("no-whole-collections", "checkout", 1, ("HGETALL", "user:1:profile"), 8),
)


def ordinary(chance: random.Random, app: str) -> tuple[str, ...]:
    """A command of an app that breaks no rule."""
    name = f"{app}:item:{chance.randrange(5000)}"
    return chance.choice(
        (
            ("GET", name),
            ("SET", name, "v" * chance.randrange(1, 200), "EX", str(chance.randrange(60, 900))),
            ("EXPIRE", name, "60"),
            ("HSET", f"{app}:record:{chance.randrange(500)}", "field", "value"),
            ("HGET", f"{app}:record:{chance.randrange(500)}", "field"),
            ("LPUSH", f"{app}:queue:{chance.randrange(9)}", "job"),
            ("LTRIM", f"{app}:queue:{chance.randrange(9)}", "0", "99"),
            ("MGET", f"{app}:{{7}}:a", f"{app}:{{7}}:b"),
            ("INCR", f"{app}:count:{chance.randrange(50)}"),
        )
    )


def traffic(chance: random.Random, size: int) -> Sent:
    """What each client of each app sends, with the planted violations somewhere in it."""
    sent: Sent = {
        (app, client): [ordinary(chance, app) for _ in range(size // len(APPS) // CLIENTS)]
        for app in APPS
        for client in range(CLIENTS)
    }
    for plant in PLANTED:
        theirs = sent[plant.app, plant.client]
        for _ in range(plant.times):
            theirs.insert(chance.randrange(len(theirs)), plant.words)
    return sent


def run(running: Running, sent: Sent, folder: Path) -> dict[tuple[str, int], list[str]]:
    """Send it, and return the error of each command, or an empty text."""
    errors = {}
    for (app, client), commands in sent.items():
        library = LIBRARIES.get(app, "")
        by = _run_by_node if library and shutil.which("node") and "NODE_PATH" in os.environ else _run_by_hand
        errors[app, client] = by(running, f"{app}-{client}", commands, library, folder)
    return errors


def _run_by_hand(running: Running, name: str, commands: Commands, _library: str, _folder: Path) -> list[str]:
    errors: list[str] = []
    with running.wire() as wire:
        wire.send(pack("CLIENT", "SETNAME", name))
        wire.frames(1)
        for first in range(0, len(commands), AT_ONCE):
            part = commands[first : first + AT_ONCE]
            wire.send(b"".join(pack(*words) for words in part))
            errors += [
                frame[1:].decode() if frame.startswith(b"-") else "" for frame in answers(running, wire, len(part))
            ]
    return errors


def answers(running: Running, wire: Wire, count: int) -> list[bytes]:
    """Replies to the next commands. Keyrail's log says why it has closed a connection."""
    try:
        return wire.frames(count)
    except Closed as closed:
        raise AssertionError(f"{closed}; the log ends with {running.stderr[-4000:]}") from closed


def _run_by_node(running: Running, name: str, commands: Commands, library: str, folder: Path) -> list[str]:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(commands))
    script = [Path(__file__).with_name("application.cjs"), library, running.ports()[0], name, file]
    done = subprocess.run(["node", *map(str, script)], capture_output=True, check=True, timeout=600)
    return [error or "" for error in json.loads(done.stdout)]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    text = packaged("observe").read_text("utf-8")
    file.write_text(text + f"\napps: {{{LIST}}}\ntraffic: {{evidence: exact, redact: none}}\n")
    return file


@pytest.mark.timeout(2400)  # two million commands take ten minutes, alone and compiled
@pytest.mark.parametrize("size", rest_is_long("50000", "2000000"))
def test_what_is_told_beforehand_is_what_happens(size: str, policy: Path, fleet: Fleet, tmp_path: Path) -> None:
    chance = random.Random(0)
    upstream = fleet.engine("valkey-9.1", "adoption").url
    arguments = ["--upstream", upstream, "--policy", str(policy), "--workers", "2"]
    with serve(*arguments, "--state-dir", str(tmp_path / "state"), "--redact", "none") as running:
        running.ready()
        sent = traffic(chance, int(size))
        run(running, sent, tmp_path)
        told = reported(running, sum(map(len, sent.values())))
        found = {
            (team["team"], each["rule"], each["count"], tuple(map(named, each["clients"])))
            for team in told["teams"]
            for app in team["apps"]
            for each in app["findings"]
            if not each["harmless"]
        }
        assert found == {
            (f"{each.app}-team", each.rule, each.times, ((f"{each.app}-{{int}}", each.times),)) for each in PLANTED
        }
        assert counted(running) == Counter((app, words[0]) for (app, _), its in sent.items() for words in its)
        told_beforehand(running, load_policy(policy), sent)
        policy.write_text(policy.read_text().replace("mode: audit", "mode: enforce", 1))
        assert running.http("/policy/reload", {})[0] == 200
        refused: Counter[str] = Counter()
        for place, errors in run(running, sent, tmp_path).items():
            for words, error in zip(sent[place], errors, strict=True):
                planted = [each for each in PLANTED if each.words == words]
                assert bool(error) is bool(planted), (words, error)
                if planted:
                    assert f"keyrail/{planted[0].rule}" in error
                    refused[planted[0].rule] += 1
        assert refused == Counter({each.rule: each.times for each in PLANTED})


def counted(running: Running) -> Counter[tuple[str, str]]:
    """How many commands of each app were recorded, but for those with which libraries connect."""
    found: Counter[tuple[str, str]] = Counter()
    for hour in running.json("/evidence")["hours"]:
        for (app, *_), command, count in hour["commands"]:
            name = command.split()[0]
            if name not in CONNECTING:
                found[app, "NOSUCHCOMMAND" if command == "unknown" else name] += count
    return found


def told_beforehand(running: Running, enforced: Policy, sent: Sent) -> None:
    """`ready`, `diff` and `learn` say what enforcing will do."""
    answer = running.json("/evidence")
    evidence = from_json(answer)
    planted = {each.rule for each in PLANTED}
    for rule in answer["facts"]["default"]["rules"]:
        name = rule["rule"]
        (verdict,) = readiness(a_week(evidence), answer["facts"], MONDAY + WEEK, name, Demand(at_least=100))
        assert verdict.ready is (name not in planted and verdict.out_of >= 100), list(map(str, verdict.conditions))
    changes = diff(evidence, dataclasses.replace(enforced, rules=()), enforced, MONDAY)
    newly = {(each.app, each.rule): each for each in changes.changes if each.kind == "newly refused"}
    for each in PLANTED:
        change = newly.pop((each.app, each.rule), None)
        if change is None:
            assert [place for place in changes.untold if place[:2] == (each.app, each.rule)], each
        else:
            assert change.commands.least <= each.times <= change.commands.most
    assert all(change.commands.least == 0 for change in newly.values()), newly
    raw = [
        learnable_traffic.Sent("default", f"{app}-{client}", [word.encode() for word in words])
        for (app, client), its in sent.items()
        for words in its
    ]
    assert list(changed(loaded(learn(evidence)), raw)) == []


def a_week(evidence: Evidence) -> Evidence:
    """The same traffic on each of seven days."""
    hours: dict[tuple[int, str], EvidenceRows] = {}
    for day in range(7):
        for (_, route), rows in evidence.hours.items():
            hours.setdefault((MONDAY + day * DAY, route), EvidenceRows()).add(rows)
    rules = [dataclasses.replace(each, since=MONDAY) for each in evidence.rules]
    return Evidence([(MONDAY, MONDAY + WEEK)], hours, rules, {})


def named(client: Any) -> tuple[str, int]:
    return client["client_name"], client["count"]


def reported(running: Running, commands: int) -> Any:
    """The report, as soon as it has so many commands."""
    told: Any = {}
    for _ in ticks():
        told = running.json("/report?since=1h")
        if told["commands"] >= commands:
            break
    return told
