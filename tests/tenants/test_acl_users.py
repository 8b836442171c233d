"""Users of Redis as `keyrail acl` prints them for tenants: through Keyrail a tenant can do all that it can without an
ACL, but for what the list says is narrower; around Keyrail it reaches no key and no channel of another one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.policy.acl import VERSIONS, AclUser, acl_of
from proxy.policy.load import load_policy
from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT
from tests.resp import decode
from tests.tenants.invocations import sent
from tests.tenants.test_against_engines import LINES, POLICY, comparable, login, prepared, stored

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

PATTERNS_OF_SORT = {"BY", "GET"}
"""From Redis 7.0 on, SORT takes these from nobody with limited keys."""
AROUND = """
GET globex:a|SET globex:a v|DEL globex:a|RENAME globex:a acme:a|COPY globex:a acme:b|MGET acme:a globex:a
LCS acme:a globex:a|BITOP AND acme:a globex:a|SORT globex:l|SORT acme:l STORE globex:l|SUNIONSTORE acme:s globex:s
XREAD STREAMS acme:x globex:x 0 0|EVAL "return redis.call('GET','globex:a')" 0|EVAL "return 1" 1 globex:a
OBJECT ENCODING globex:a|MEMORY USAGE globex:a|DUMP globex:a|TYPE globex:a|PFCOUNT acme:a globex:a|GET keyrail:a
SUBSCRIBE globex:c|PSUBSCRIBE *|PSUBSCRIBE globex:*|PSUBSCRIBE acme:c*|SUBSCRIBE __keyevent@0__:set|PUBLISH globex:c m
SUBSCRIBE __keyspace@0__:globex:a|PSUBSCRIBE __key*__:*|KEYS *|FLUSHALL|FLUSHDB|MONITOR|CONFIG GET *|CLIENT LIST
CLIENT KILL ID 1|ACL LIST|ACL SETUSER acme ~*|DEBUG SLEEP 0|SCRIPT FLUSH|SLOWLOG GET|MOVE globex:a 1|SWAPDB 0 1|SAVE
""".replace("\n", "|").strip("|")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "tenants.yaml"
    file.write_text(POLICY, encoding="utf-8")
    return file


@pytest.fixture
def users(file: Path, engine_name: str) -> list[AclUser]:
    name = {"valkey-9.1": "valkey-9"}.get(engine_name, engine_name)
    return list(acl_of(load_policy(file), VERSIONS[name], 0.0).users)


@pytest.fixture
def shared(fleet: Fleet, engine_name: str, users: list[AclUser]) -> Engine:
    engine = prepared(fleet.engine(engine_name))
    for user in users[1:]:
        engine.do("ACL", "SETUSER", user.name, *user.words)
    for line in ("SET globex:a secret", "RPUSH globex:l secret", "SADD globex:s secret", "SET keyrail:a secret"):
        engine.do(*line.split())
    return engine


def test_a_tenant_can_do_what_it_could(
    fleet: Fleet, engine_name: str, file: Path, shared: Engine, protocol: int
) -> None:
    keyrail = fleet.keyrail(engine_name, policy=file)
    alone = prepared(fleet.engine(engine_name, "alone"))
    with keyrail.wire(protocol=protocol) as through, alone.wire(protocol=protocol) as direct:
        wires = [login(through, "acme"), login(direct, "acme")]
        for words in LINES:
            told, expected = (wire.ask(*sent(words)) for wire in wires)
            if engine_name != "redis-6.2" and words[0].startswith("SORT") and PATTERNS_OF_SORT & set(words):
                assert told.startswith(b"-ERR")
                direct.ask("DEL", "sorted")
            else:
                assert comparable(words, told) == comparable(words, expected), words
    assert stored(shared, "acme:") == stored(alone)


def test_a_tenant_hears_of_its_own(fleet: Fleet, engine_name: str, file: Path, shared: Engine) -> None:
    keyrail = fleet.keyrail(engine_name, policy=file)
    shared.do("CONFIG", "SET", "notify-keyspace-events", "KA")
    channels = ("c", "__keyspace@0__:a", "__keyspace@10__:a", "__redis__:invalidate")
    with keyrail.wire() as through, keyrail.wire() as writer:
        login(through, "acme"), login(writer, "acme")
        for number, words in enumerate((*(("SUBSCRIBE", each) for each in channels), ("PSUBSCRIBE", "*")), 1):
            assert through.value(*words) == [words[0].lower().encode(), words[1].encode(), number]
        assert writer.ask("PUBLISH", "c", "m") == b":2\r\n"
        assert decode(through.frame()) == [b"message", b"c", b"m"]
        assert decode(through.frame()) == [b"pmessage", b"*", b"c", b"m"]
        writer.ask("SET", "a", "v")
        assert decode(through.frame()) == [b"message", b"__keyspace@0__:a", b"set"]
        for words in (("PSUBSCRIBE", "c*"), ("SUBSCRIBE", "__keyevent@0__:set"), ("PSUBSCRIBE", "__keyspace@*__:a*")):
            assert through.ask(*words).startswith(b"-NOPERM")


def test_around_keyrail_nothing_of_others_is_reached(shared: Engine, users: list[AclUser]) -> None:
    with shared.wire() as wire:
        login(wire, "acme")
        wire.ask("SET", "acme:a", "v")
        for line in AROUND.split("|"):
            words = shlex.split(line)
            reply = wire.ask(*words)
            assert b"secret" not in reply
            assert reply.startswith(b"-"), (line, reply)
            assert reply[:7] != b"-NOAUTH"
    assert shared.do("GET", "globex:a") == b"secret"


def test_all_commands_with_keys_of_others(shared: Engine, users: list[AclUser]) -> None:
    """But for those that the list has as wider."""
    acme = next(each for each in users if each.name == "acme")
    wider = {name for each in acme.wider for name in each.commands}
    tried = 0
    with shared.wire() as wire:
        login(wire, "acme")
        for words in LINES:
            argv = sent(words, "globex:")
            command = Command(STANDARD, argv)
            if command.spec.id and command.spec.name not in wider and command.known_keys:
                reply = wire.ask(*argv)
                assert reply.startswith(b"-"), (words, reply)
                tried += reply.startswith(b"-NOPERM")
    assert tried > 150
