"""`keyrail acl --prove`: an engine that nobody else uses is asked, and no other one is changed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.cli.acl_prove import Proof, prove
from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.net.config.address import parse_upstream
from proxy.policy.acl import VERSIONS, Acl, acl_of
from proxy.policy.acl.proof import Request, questions
from proxy.server.evidence.model import Batch, hour_of
from proxy.server.evidence.store import SqliteStore
from proxy.server.stored.link import Answer, ServerLink
from proxy.server.stored.node_walk import Request as Asked
from proxy.traffic.command_form import form_of
from proxy.traffic.evidence_rows import EvidenceRows, Exemplar, FormKey, FormRow, Identity
from tests.conftest import Fleet
from tests.engines import Engine
from tests.policy.given import policy as policy_of
from tests.resp import eventually

POLICY = """defaults: {mode: enforce}
apps: {shop: {match: {user: shop}}, port: {match: {listener: "*:6381"}}}
rules:
  own: {names: {prefixes: {shop: ["cart:"]}}}
  no-save: {refuse: [SAVE]}
  no-scripts: {refuse: [EVAL, EVALSHA, EVAL_RO, EVALSHA_RO, FCALL, FCALL_RO]}
  lazy: {replace: {DEL: UNLINK}}
tests:
  - {send: "SAVE", refused_by: no-save}
  - {send: "DEL cart:1", app: shop, becomes: "UNLINK cart:1"}
  - {send: "GET user:1", app: shop, refused_by: own}
"""
QUESTIONS = 3 * 3 + 3
"""Each of the tests, about `default` for clients of both apps and of none, and about `shop`."""
NewEngine = Callable[..., Engine]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    file = tmp_path / "shop.yaml"
    file.write_text(f"keyrail: 1\n{POLICY}")

    def run(version: str, *arguments: str) -> tuple[int, str, str]:
        status = main(["acl", "--policy", str(file), "--for", version, *arguments])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def test_the_embedded_engine(verb: Run) -> None:
    status, shown, complaint = verb("valkey-9", "--prove")
    assert (status, complaint) == (0, "")
    assert "\n# proved: valkey 9.1." in shown
    assert shown.endswith(" questions as it must\n")
    status, shown, _ = verb("valkey-9", "--prove", "--json")
    proof = json.loads(shown)["proof"]
    assert (status, proof["faults"], proof["unknown"]) == (0, [], 0)
    assert 5 <= proof["questions"] <= QUESTIONS, "what the list says is wider is not asked"


@pytest.mark.parametrize("version", ["redis-6.2", "redis-7.0", "redis-8.2"])
def test_a_server_that_nobody_else_uses(version: str, new_engine: NewEngine, verb: Run) -> None:
    engine = new_engine(version)
    before = engine.do("ACL", "LIST")
    status, shown, complaint = verb(version, "--prove", engine.url)
    assert (status, complaint) == (0, "")
    assert f"\n# proved: redis {version.removeprefix('redis-')}." in shown
    assert engine.do("ACL", "LIST") == before, "the users are gone"
    assert engine.do("DBSIZE") == 0


def test_its_users_are_gone_also_if_the_connection_is_lost(
    new_engine: NewEngine, verb: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = new_engine("redis-7.0")
    before, ask = engine.do("ACL", "LIST"), ServerLink.ask

    async def lost(link: ServerLink, request: Asked) -> Answer:
        if request.commands[0][:2] == (b"ACL", b"DRYRUN"):
            link.close()
        return await ask(link, request)

    monkeypatch.setattr(ServerLink, "ask", lost)
    status, shown, complaint = verb("redis-7.0", "--prove", engine.url)
    assert (status, shown) == (1, "")
    assert complaint.startswith(f"keyrail: --prove: {engine.url}: ")
    assert engine.do("ACL", "LIST") == before


def a_key(engine: Engine, _: NewEngine) -> None:
    engine.do("SET", "k", "v")


def a_key_of_another_database(engine: Engine, _: NewEngine) -> None:
    with engine.wire() as wire:
        wire.ask("SELECT", 9)
        wire.ask("SET", "k", "v")


def a_user(engine: Engine, _: NewEngine) -> None:
    engine.do("ACL", "SETUSER", "shop", "on", "nopass", "~*", "+@all")


def a_replica(engine: Engine, new_engine: NewEngine) -> None:
    replica = new_engine(engine.name)
    replica.do("REPLICAOF", "127.0.0.1", engine.port)
    eventually(lambda: engine.info("replication")["connected_slaves"] == "1")


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (a_key, "has keys"),
        (a_key_of_another_database, "has keys"),
        (a_user, "has users beside default"),
        (a_replica, "is a replica, or has one"),
    ],
)
def test_a_server_that_somebody_uses_is_left_alone(
    use: Callable[[Engine, NewEngine], None], reason: str, new_engine: NewEngine, verb: Run
) -> None:
    engine = new_engine("redis-7.0")
    use(engine, new_engine)
    asked = engine.info("commandstats")
    status, shown, complaint = verb("redis-7.0", "--prove", engine.url)
    assert (status, shown) == (1, "")
    assert f"the server {reason}: give one that nobody else uses" in complaint
    assert all("acl|setuser" not in name for name in engine.info("commandstats").keys() - asked.keys())


def test_a_server_with_other_clients_is_left_alone(new_engine: NewEngine, verb: Run) -> None:
    engine = new_engine("redis-7.0")
    with engine.wire() as wire:
        wire.ask("PING")
        assert "has 1 other clients" in verb("redis-7.0", "--prove", engine.url)[2]
    assert engine.calls("acl|setuser") == 0


def test_mistakes(new_engine: NewEngine, verb: Run, capsys: pytest.CaptureFixture[str]) -> None:
    engine = new_engine("redis-7.0")
    complaint = verb("redis-6.2", "--prove", engine.url)[2]
    assert complaint.startswith("keyrail: --prove: the server is redis 7.0.")
    assert complaint.endswith("it can prove nothing about redis-6.2\n")
    engine.kill()
    assert verb("redis-7.0", "--prove", engine.url)[0] == 1
    for arguments, expected in (
        (["redis-7.0", "--prove"], "--prove needs the URL of a redis-7.0 that nobody else uses"),
        (["valkey-9", "--state-dir", "x"], "--state-dir needs --prove"),
        (["valkey-9", "--prove", "redis+cluster://h:1"], "expected the URL of one server that nobody else uses"),
    ):
        with pytest.raises(SystemExit):
            verb(*arguments)
        assert expected in capsys.readouterr().err


def test_recorded_commands_are_asked_about_for_their_own_app(verb: Run, tmp_path: Path) -> None:
    count = json.loads(verb("valkey-9", "--prove", "--json")[1])["proof"]["questions"]
    now = time.time()
    store = SqliteStore(tmp_path / "evidence.sqlite", 1 << 20, 30)
    forms = {}
    for words, lost in ((("GET", "cart:{int}"), ""), (("SET", "cart:{int}", "<59 bytes>"), ""), (("GET", "x"), "lost")):
        form = form_of(Command(STANDARD, [b"_" * 59 if word[0] == "<" else word.encode() for word in words]))
        forms[FormKey(Identity("shop", "shop"), words[0], words[1] + lost, form + lost)] = words
    rows = EvidenceRows(forms={key: FormRow(1, 1, [Exemplar(words, now)]) for key, words in forms.items()})
    store.add(Batch(now - 60, now, [(hour_of(now), "default", rows)], [], {}))
    store.close()
    status, shown, complaint = verb("valkey-9", "--prove", "--json", "--state-dir", str(tmp_path))
    assert (status, complaint) == (0, "")
    asked = json.loads(shown)["proof"]["questions"] - count
    assert asked == 4, "two commands, of two users: default and shop"
    assert verb("valkey-9", "--prove", "--state-dir", str(tmp_path / "none"))[0] == 1


@pytest.mark.parametrize("version", ["redis-6.2", "valkey-9"])
def test_an_acl_that_is_narrower_or_wider_is_found(version: str, fleet: Fleet) -> None:
    policy, its, now = policy_of(POLICY), VERSIONS[version], time.time()
    acl = acl_of(policy, its, now)
    asked = [*questions(policy, acl, its, [Request(test.send) for test in policy.tests], now)]
    engine = parse_upstream(fleet.engine(its.engine, "of-acls").url)

    def proved(*more: str) -> Proof:
        login, shop = acl.users
        users = login, replace(shop, words=(*shop.words, *more))
        return asyncio.run(prove(Acl(users, (), ()), its, asked, engine))

    assert not proved().faults
    assert any("Redis refuses UNLINK cart:1, which Keyrail sends" in each for each in proved("-unlink").faults)
    assert any("no-save refuses it, and Redis does not" in each for each in proved("+save").faults)
    assert any("GET user:1: own refuses it" in each for each in proved("~user:*").faults)
