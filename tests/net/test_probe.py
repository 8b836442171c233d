"""Keyrail finds out which commands a user may run without running them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from proxy.commands.table import STANDARD
from proxy.net.connection.engine import Probed, probe
from tests.conftest import Fleet, seeds
from tests.engines import Engine
from tests.resp import Wire

OK, QUEUED = b"+OK\r\n", b"+QUEUED\r\n"


class Redis:
    """It answers a command inside MULTI as it is told to, and writes down what was asked."""

    def __init__(self, told: bytes = QUEUED, multi: bytes = OK, discard: bytes = OK) -> None:
        self.told = {"MULTI": multi, "DISCARD": discard, "UNLINK": told}
        self.asked: list[str] = []
        self.aborted = False

    async def ask(self, argv: list[str]) -> bytes:
        self.asked.append(argv[0])
        return self.told[argv[0]]

    def abort(self) -> None:
        self.aborted = True


def probed(redis: Any, needs: frozenset[str] = frozenset({"UNLINK"})) -> Probed:
    """What is told of a made-up connection."""
    return asyncio.run(probe(redis, needs))


def able(redis: Any) -> frozenset[str]:
    found = probed(redis)
    assert not found.unclear
    return found.able


@pytest.mark.parametrize(
    ("told", "may"),
    [
        (QUEUED, True),
        *(
            (f"-{code} 1 127.0.0.1:1\r\n".encode(), True)
            for code in ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "CROSSSLOT")
        ),
        (b"-ERR unknown command 'UNLINK'\r\n", False),
        (b"-NOPERM User app has no permissions to run the 'unlink' command\r\n", False),
        (b"-NOPERM User keyrail has no permissions to run the 'unlink' command\r\n", False),
        (b"-NOPERM this user has no permissions to run the 'unlink' command or its subcommand\r\n", False),
        (b"-NOPERM No permissions to access a key\r\n", True),
        (b"-NOPERM this user has no permissions to access one of the keys used as arguments\r\n", True),
    ],
)
def test_a_command_is_queued_and_forgotten(told: bytes, may: bool) -> None:
    redis = Redis(told)
    assert able(redis) == (frozenset({"UNLINK"}) if may else frozenset())
    assert redis.asked == ["MULTI", "UNLINK", "DISCARD"]


@pytest.mark.parametrize("code", ["OOM", "BUSY", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS"])
def test_an_error_of_the_moment_says_nothing_of_the_command(code: str) -> None:
    error = f"-{code} not now\r\n".encode()
    nothing = Probed(frozenset(), frozenset({"UNLINK"}))
    assert probed(Redis(told=error)) == nothing
    assert probed(Redis(multi=error)) == nothing


def test_where_there_is_no_multi_nothing_is_known_and_nothing_is_tried() -> None:
    redis = Redis(multi=b"-NOPERM\r\n")
    assert probed(redis) == Probed(frozenset(), untold=frozenset({"UNLINK"}))
    assert redis.asked == ["MULTI"]


def test_a_connection_on_which_the_command_may_still_run_is_given_up() -> None:
    redis = Redis(discard=b"-NOPERM\r\n")
    assert probed(redis) == Probed(frozenset(), untold=frozenset({"UNLINK"}))
    assert redis.aborted


NAMES = ["CLIENT", "DEL", "EVAL", "EXEC", "EXPIRE", "GETEX", "HSET", "MSETEX", "PTTL", "SET", "UNLINK"]
REPLIES = (QUEUED, b"-NOPERM you may not\r\n", b"-ERR unknown command\r\n", b"-OOM no\r\n", b"-MOVED 1 x:1\r\n")


class Several(Redis):
    """It has its own answer to each command, and counts how often Keyrail waits for answers."""

    def __init__(self, told: dict[str, bytes]) -> None:
        super().__init__()
        self.told |= told
        self.waits = 0
        self._answered = True
        self._open = False

    def ask(self, argv: list[str]) -> Any:
        self.waits += self._answered
        self._answered = False
        self.asked.append(argv[0])
        return asyncio.ensure_future(self._answer(argv[0]))

    async def _answer(self, name: str) -> bytes:
        self._answered = True
        if name == "MULTI":
            self._open = True
        elif not self._open:
            return b"-ERR without MULTI\r\n"
        elif name == "EXEC":
            # A refused EXEC ends the transaction, in all engines.
            self._open = False
            reply = self.told["EXEC"]
            return b"-EXECABORT Transaction discarded because of: " + reply[1:] if reply[:1] == b"-" else reply
        elif name == "DISCARD":
            self._open = False
        return self.told[name]


@pytest.mark.parametrize("seed", seeds(30, 300))
def test_all_commands_are_asked_about_at_once_and_told_apart(seed: int) -> None:
    chance = random.Random(seed)
    needs = frozenset(chance.sample(NAMES, chance.randint(1, len(NAMES))))
    told = {name: chance.choice(REPLIES) for name in needs}
    if told.get("EXEC") == QUEUED:
        told["EXEC"] = b"*0\r\n"
    redis = Several(told)
    found = probed(redis, needs)
    assert found.untold == set()
    assert found.able == {name for name in needs if told[name] in (QUEUED, REPLIES[-1], b"*0\r\n")}
    assert found.unclear == {name for name in needs if told[name].startswith(b"-OOM")}
    assert found.unknown == {name for name in needs if b"unknown" in told[name]}
    assert redis.waits <= 2 + 3 * ("EXEC" in needs)
    assert len(redis.asked) <= len(needs) + 2 + 2 * ("EXEC" in needs)


class Direct:
    """A connection to a real engine."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def ask(self, argv: list[str]) -> Any:
        told = asyncio.get_running_loop().create_future()
        told.set_result(self._wire.ask(*argv))
        return told


@contextmanager
def user_with(engine: Engine, *rules: str) -> Iterator[Direct]:
    engine.do("ACL", "SETUSER", "probed", "reset", "on", "nopass", "~*", *rules)
    try:
        with engine.wire() as wire:
            assert wire.ask("AUTH", "probed", "x") == OK
            yield Direct(wire)
            assert wire.ask("EXEC") == b"-ERR EXEC without MULTI\r\n" or "-exec" in rules
    finally:
        engine.do("ACL", "DELUSER", "probed")


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_a_real_engine_tells_each_that_the_user_lacks_and_runs_none(fleet: Fleet, engine_name: str, seed: int) -> None:
    engine, chance = fleet.engine(engine_name), random.Random(seed)
    engine.do("FLUSHALL")
    engines_have = sorted(set(NAMES) - {"MSETEX"})
    lacked = chance.sample(engines_have, chance.randint(0, len(engines_have)))
    with user_with(engine, "+@all", *(f"-{name.lower()}" for name in lacked)) as direct:
        found = probed(direct, frozenset(NAMES))
    assert found.able == set(NAMES) - set(lacked) - found.unknown
    assert all(STANDARD.find(name) for name in found.unknown)
    assert found.unknown <= {"MSETEX", "EXPIRE"}
    assert engine.do("DBSIZE") == 0
