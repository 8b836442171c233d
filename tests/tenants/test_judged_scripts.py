"""Scripts of tenants that their text allows, on real engines: they reach declared keys only, and tell no name."""

from __future__ import annotations

import random

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.commands.tenant_commands import Offer, RequestNames, decision_in_scripts
from proxy.policy.tenant_scripts import TenantScripts
from proxy.rules.scripts.memory import ScriptMemory
from tests.conftest import Fleet, seeds
from tests.engines import Engine
from tests.tenants.invocations import INVOCATIONS, MARK, sent
from tests.tenants.monitor import Monitor
from tests.tenants.script_grammar import made

SECRET = b"acme:\xc3\xa4"
"""How declared keys begin."""
TYPES = [words.split() for words in ("SET 1", "HSET f v", "RPUSH v", "SADD v", "ZADD 1 v", "XADD * f v")]
"""A key of each type, made without its name."""


def prepared(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    return engine


def allows(text: str) -> bool:
    judge = TenantScripts(STANDARD, ScriptMemory())
    return judge.refusal(Command(STANDARD, [b"EVAL", text.encode(), b"0"]), in_transaction=False) is None


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_an_allowed_script_reaches_declared_keys_only_and_tells_no_name(
    fleet: Fleet, engine_name: str, seed: int
) -> None:
    engine, chance = prepared(fleet, engine_name), random.Random(seed)
    names = [SECRET + b"%d" % number for number in range(3)]
    monitor, allowed = Monitor(engine), 0
    with engine.wire() as wire:
        for name in ("globex:a", "globex:h", "acme:a", "outside", "b"):
            wire.ask("SET", name, "theirs")
        for _ in range(900):
            script = made(chance)
            if not allows(script.text):
                continue
            allowed += 1
            reply = wire.ask("EVAL", script.text, script.keys, *names[: script.keys], *script.arguments)
            assert SECRET not in reply, script
            assert b"\xa4" not in reply, script
        called = list(monitor.commands(by_scripts=True))
        reached = {key.name for command in called for key in command.keys}
        kept = [wire.ask("DUMP", name) + wire.ask("OBJECT", "ENCODING", name) for name in names]
        assert reached <= {*names}
        assert len(called) > 50
        assert not any(SECRET in each for each in kept)
        assert {wire.ask("GET", name) for name in ("globex:a", "globex:h", "acme:a", "outside", "b")} == {
            b"$6\r\ntheirs\r\n"
        }
    assert allowed > 100


def as_script(words: list[str]) -> tuple[str, list[bytes]]:
    """A script that calls the command of an invocation, with its keys as KEYS; and the keys."""
    keys: list[str] = []
    shown = []
    for word in words:
        mark = MARK.fullmatch(word)
        if mark is not None:
            keys.append(mark[1])
        shown.append(f"KEYS[{len(keys)}]" if mark is not None else f"'{word}'")
    return f"return redis.pcall({', '.join(shown)})", [key.encode() for key in keys]


CALLED = [words for words in INVOCATIONS if isinstance(decision_in_scripts(STANDARD.spec_of(sent(words)).name), Offer)]


def test_no_reply_and_no_error_of_a_command_for_scripts_names_a_key(fleet: Fleet, engine_name: str) -> None:
    """Each is called after what has been called before, and on keys of all types."""
    engine, refused = prepared(fleet, engine_name), []
    with engine.wire() as wire:
        for words in CALLED:
            text, keys = as_script(words)
            if not allows(text):
                refused.append(" ".join(words))
                continue
            names = [SECRET + key for key in keys]
            channel = decision_in_scripts(STANDARD.spec_of(sent(words)).name)
            assert isinstance(channel, Offer)
            told = [wire.ask("EVAL", text, len(names), *names)]
            for name, *value in TYPES if channel.request is RequestNames.KEYS else ():
                wire.ask("DEL", SECRET + b"typed")
                wire.ask(name, SECRET + b"typed", *value)
                told.append(wire.ask("EVAL", text, len(names), *[SECRET + b"typed"] * len(names)))
                told.append(wire.ask("EVAL", text, len(names), *[SECRET + b"none"] * len(names)))
            assert not any(SECRET in reply for reply in told), words
    assert refused == ["GET {a} {b}"]
