"""Keyrail forgets facts about Redis and its clients as soon as they are no longer true.

Proves: limits before a login end with the password; Keyrail stops using a command that a user may no longer run, and
begins to use one that the user may run; ACL users share nothing, with any names; a name disappears from CLIENT LIST
with its client.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import EXPECTED, Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]
pytestmark = pytest.mark.skipif(DIRECT, reason="Keyrail's own doing")

LAZY = "keyrail: 1\ndefaults: {mode: enforce}\nrules:\n  lazy: {replace: {DEL: UNLINK}}\n"
WHOSE_LOGIN = pytest.mark.parametrize(
    ("engine_name", "own_login"),
    [*((name, False) for name in EXPECTED), (EXPECTED[0], True)],
    indirect=["engine_name"],
)
SIX_PAIRS = tuple(f"{kind}{i}" for i in range(6) for kind in "kv")


@pytest.fixture
def lazy(tmp_path: Path) -> Path:
    (tmp_path / "lazy.yaml").write_text(LAZY)
    return tmp_path / "lazy.yaml"


def test_limits_before_a_login_end_with_the_password(
    new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str
) -> None:
    """For clients that are there already, and for those that come."""
    engine = new_engine(engine_name, {"requirepass": "secret"})
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as early, engine.wire() as direct:
        assert early.ask("PING").startswith(b"-NOAUTH")
        assert direct.ask("AUTH", "secret") == b"+OK\r\n"
        assert direct.ask("CONFIG", "SET", "requirepass", "") == b"+OK\r\n"

        def accepted() -> bool:
            with keyrail.wire() as late:
                return late.ask("MSET", *SIX_PAIRS) == b"+OK\r\n"

        eventually(accepted)
        assert early.ask("MSET", *SIX_PAIRS) == b"+OK\r\n"
        assert direct.ask("CONFIG", "SET", "requirepass", "again") == b"+OK\r\n"


def users_of(engine: Engine, *, names: tuple[bytes, ...] = (b"app",)) -> None:
    for name in names:
        engine.do("ACL", "SETUSER", name, "on", b">" + name, "~*", "&*", "+@all")


@WHOSE_LOGIN
def test_capabilities_come_and_go(
    new_engine: NewEngine, new_keyrail: NewKeyrail, lazy: Path, engine_name: str, own_login: bool
) -> None:
    """A DEL that is refused because Keyrail made it an UNLINK is the last one; and UNLINK is used when it may be."""
    engine = new_engine(engine_name)
    users_of(engine)
    login = "" if own_login else "app:app@"
    keyrail = new_keyrail(f"redis://{login}127.0.0.1:{engine.port}", policy=lazy)
    with keyrail.wire() as wire, keyrail.wire() as other:
        if own_login:
            for each in (wire, other):
                assert each.ask("AUTH", "app", "app") == b"+OK\r\n"

        def deletes() -> bool:
            assert wire.ask("SET", "k", "v") == b"+OK\r\n"
            reply = wire.ask("DEL", "k")
            assert reply == b":1\r\n" or reply.startswith(b"-NOPERM"), reply
            return reply == b":1\r\n"

        def unlinks() -> bool:
            before = engine.calls("unlink")
            return deletes() and engine.calls("unlink") > before

        eventually(unlinks)
        engine.do("ACL", "SETUSER", "app", "-unlink")
        eventually(deletes)
        assert all(deletes() for _ in range(20)), "no refusal after the first"
        assert other.ask("DEL", "k") == b":0\r\n"
        if engine_name == EXPECTED[0]:
            engine.do("ACL", "SETUSER", "app", "+unlink")
            eventually(unlinks)


QUESTIONS = 3
"""Commands about which Keyrail asks under the policy of these tests: CLIENT, DEL and UNLINK."""

LIE = "return redis.error_reply(\"NOPERM User default has no permissions to run the 'unlink' command\")"


def test_a_user_may_ask_for_what_it_may_not_run_all_day(
    new_engine: NewEngine, new_keyrail: NewKeyrail, lazy: Path
) -> None:
    """Scripts can say NOPERM of anything: that costs Keyrail a question now and then, and takes no rule away."""
    engine = new_engine()
    keyrail = new_keyrail(engine.url, policy=lazy)
    with keyrail.wire() as wire:
        wire.ask("SET", "k", "v")
        wire.send(pack("EVAL", LIE, "0") * 500 + pack("DEL", "k"))
        assert wire.frames(501)[-1] == b":1\r\n"
        assert engine.calls("del") == 0
        assert engine.calls("multi") < 50


def test_a_full_redis_says_nothing_of_rights(
    new_engine: NewEngine, new_keyrail: NewKeyrail, lazy: Path, engine_name: str
) -> None:
    """Redis that is out of memory refuses any command inside MULTI, and so each question about what a user may run."""
    engine = new_engine(engine_name)
    keyrail = new_keyrail(engine.url, policy=lazy)
    with keyrail.wire() as wire:
        assert wire.ask("DEL", "k") == b":0\r\n"
        engine.do("CONFIG", "SET", "maxmemory", "1")
        asked = engine.calls("discard")

        def looked() -> bool:
            assert wire.ask("EVAL", LIE, "0").startswith(b"-NOPERM")
            return engine.calls("discard") >= asked + 2 * QUESTIONS

        eventually(looked)
        for _ in range(20):
            assert wire.ask("DEL", "k") == b":0\r\n"
        assert engine.calls("del") == 0


NAMES = (b"\xff", b"\xfe", b"\xff\xfe", b"caf\xc3\xa9", b"caf\xe9", b"\xef\xbf\xbd")


def test_users_whose_names_are_no_text_share_nothing(
    new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str
) -> None:
    engine = new_engine(engine_name)
    users_of(engine, names=NAMES)
    keyrail = new_keyrail(engine.url)
    wires = {name: keyrail.wire() for name in NAMES}
    for name, wire in wires.items():
        assert wire.ask("AUTH", name, name) == b"+OK\r\n"
    for _ in range(20):
        for wire in wires.values():
            wire.send(pack("GET", "k") + pack("ACL", "WHOAMI"))
        for name, wire in wires.items():
            assert wire.frames(2)[1] == b"$%d\r\n%b\r\n" % (len(name), name)
    for wire in wires.values():
        wire.close()


def names_in(direct: Wire) -> set[bytes]:
    return {name for name in re.findall(rb" name=(\S*)", direct.ask("CLIENT", "LIST")) if name}


@WHOSE_LOGIN
def test_a_name_is_gone_when_its_client_is(
    new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str, own_login: bool
) -> None:
    """However it came to the connection, and however the client left."""
    engine = new_engine(engine_name)
    users_of(engine)
    keyrail = new_keyrail(engine.url)
    chance = random.Random(7)
    with engine.wire() as direct:
        for turn in range(12):
            name = f"worker-{turn}"
            wire = keyrail.wire()
            if own_login:
                assert wire.ask("AUTH", "app", "app") == b"+OK\r\n"
            if chance.random() < 0.5:
                assert wire.ask("CLIENT", "SETNAME", name) == b"+OK\r\n"
                wire.ask("BLPOP", "none", "0.01")
            elif chance.random() < 0.5:
                wire.ask("SUBSCRIBE", "news")
                wire.ask("UNSUBSCRIBE", "news")
                assert wire.ask("CLIENT", "SETNAME", name) == b"+OK\r\n"
                wire.ask("WATCH", "k")
                wire.ask("UNWATCH")
            else:
                wire.ask("HELLO", "2", "SETNAME", name)
                wire.ask("WATCH", "k")
            last = chance.randrange(4)
            if last == 0:
                wire.ask("CLIENT", "SETNAME", f"{name}-renamed")
            elif last == 1:
                wire.reset()
            elif last == 2:
                wire.ask("QUIT")
            wire.close()
        eventually(lambda: not names_in(direct))


def test_a_user_without_client_needs_no_reset(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine("redis-7.0")
    engine.do("ACL", "SETUSER", "app", "on", ">app", "~*", "+@all", "-client")
    keyrail = new_keyrail(f"redis://app:app@127.0.0.1:{engine.port}")
    with keyrail.wire() as wire:
        assert wire.ask("CLIENT", "SETNAME", "x").startswith(b"-NOPERM")
        wire.ask("BLPOP", "none", "0.01")
        before = len(engine.do("ACL", "LOG"))  # type: ignore[arg-type]  # a list
        wire.ask("BLPOP", "none", "1.2")
        assert len(engine.do("ACL", "LOG")) == before  # type: ignore[arg-type]  # a list
