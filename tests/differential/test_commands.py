"""Every command, with real arguments, answers the same through Keyrail as directly: byte for byte.

Proves: replies are the same pooled and not, in RESP2 and RESP3, however the bytes are cut; a MULTI…EXEC that arrives
whole, and one that arrives in steps, give what Redis gives, refused commands in it included; a command that no table
knows is forwarded and its error is the engine's own; every command has a script here or a reason why it has none.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from proxy.commands.table import STANDARD, ConnectionState
from tests.conftest import Fleet
from tests.differential.runner import WAYS, applies, differences, run, sensible
from tests.differential.script import Line, Script, families, scripts_of
from tests.engines import EXPECTED, Engine, kinds
from tests.resp import Wire, commands

CLEAN = (
    "CLIENT UNPAUSE",
    "FLUSHALL",
    "SCRIPT FLUSH",
    "CONFIG RESETSTAT",
    "SLOWLOG RESET",
    "FUNCTION FLUSH",
    "PING the-end",
)


class Cleaner:
    """A direct connection that empties an engine."""

    def __init__(self, engine: Engine) -> None:
        self.wire = Wire(engine.address)

    def clean(self) -> None:
        self.wire.send(commands(CLEAN))
        while b"the-end" not in self.wire.frame():
            continue


def compare(fleet: Fleet, engine_name: str, pooling: bool, protocol: int, way: str, scripts: list[Script]) -> list[str]:
    """Run the scripts on two engines alike, one of them behind Keyrail; everything that differs, in words."""
    direct = fleet.engine(engine_name, "reference")
    keyrail = fleet.keyrail(engine_name, pooling=pooling)
    cleaners = [Cleaner(direct), Cleaner(fleet.engine(engine_name))]
    found: list[str] = []
    for script in scripts:
        if not applies(script, way, protocol, pooling):
            continue
        for cleaner in cleaners:
            cleaner.clean()
        expected = run(way, script, direct.address, protocol)
        found += differences(script, expected, run(way, script, keyrail.address, protocol))
    for cleaner in cleaners:
        cleaner.wire.close()
    return found


def report(found: list[str]) -> None:
    if found:
        pytest.fail(f"{len(found)} differences\n" + "\n".join(found[:40]), pytrace=False)


SETTINGS = [
    pytest.param(way, protocol, pooling, id=f"{way}-resp{protocol}-{'pooled' if pooling else 'unpooled'}")
    for pooling in (True, False)
    for protocol in (2, 3)
    for way in WAYS
    if sensible(way, protocol, pooling)
]


@cache
def covered() -> dict[str, Script]:
    """Each command's first script, by the command's name."""
    found: dict[str, Script] = {}
    for family in families():
        for script in scripts_of(family):
            for name in script.names:
                found.setdefault(name.upper(), script)
    return found


def names_of(engine: Engine) -> dict[str, int]:
    """Every command and subcommand of an engine, with its arity."""
    with engine.wire() as wire:
        answer = wire.value("COMMAND")
    assert isinstance(answer, list)
    found: dict[str, int] = {}
    for entry in answer:
        assert isinstance(entry, list)
        described: list[Any] = entry
        inner = described[9] if len(described) > 9 else []
        for name, arity, *_ in [described, *(sub for sub in inner if isinstance(sub, list))]:
            found[bytes(name).decode().upper().replace("|", " ")] = int(arity)
    return found


def test_every_command_of_the_engine_has_a_script(fleet: Fleet, engine_name: str) -> None:
    """A new command of a new engine fails here until somebody says how it is held."""
    assert sorted(set(names_of(fleet.engine(engine_name))) - set(covered())) == []


def test_every_command_of_the_table_is_known_somewhere_or_has_a_script(fleet: Fleet) -> None:
    """The test below sends the commands that the table knows and none of these engines does to all of them."""
    known = set().union(*(names_of(fleet.engine(name)) for name in kinds() if name in EXPECTED))
    table = {spec.display for spec in STANDARD.specs if spec.name}
    assert known - table - {"HOST:", "POST"} == set()


@pytest.mark.parametrize("way", ["step", "pipeline", "transaction"])
def test_commands_that_this_engine_lacks(fleet: Fleet, engine_name: str, pooling: bool, way: str) -> None:
    """Commands of other versions and of modules: the engine's own "unknown command", and nothing stays behind."""
    own = names_of(fleet.engine(engine_name))
    lacking = sorted(
        spec.display
        for spec in STANDARD.specs
        if spec.name
        and spec.state is not ConnectionState.KEYRAIL
        and spec.display not in own
        and spec.display not in covered()
    )
    assert len(lacking) > 50, "the table knows more than these engines do"
    lines = [Line(f"{name} {arguments}") for name in lacking for arguments in ("key 1 field value", "")]
    scripts = [
        Script("lacking", (f"from {lines[start].text}",), [*lines[start : start + 80], Line("GET key")])
        for start in range(0, len(lines), 80)
    ]
    report(compare(fleet, engine_name, pooling, 2, way, scripts))


def test_every_skip_has_a_reason() -> None:
    skipped = {name: script.skip for name, script in covered().items() if script.skip}
    assert len(skipped) <= 8
    assert all(len(why) > 20 for why in skipped.values())


UNTELLABLE = {"CLIENT REPLY", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "AUTH"}
"""Refused inside MULTI, in Keyrail's own words; the protocol tests hold that."""

TRANSACTIONAL = {"MULTI", "EXEC", "DISCARD"}
"""Their own errors inside MULTI are in the scripts about them."""

ENDLESS = {"MONITOR", "SYNC", "PSYNC", "SHUTDOWN", "QUIT", "DEBUG"}
"""Commands that a bare name already sets off, and after which the connection is of another kind or gone."""


@pytest.mark.parametrize("pooling", [True, False], ids=["pooled", "unpooled"])
def test_wrong_number_of_arguments(fleet: Fleet, engine_name: str, pooling: bool) -> None:
    """Too few arguments and far too many, for every command and subcommand, alone and in MULTI: the engine's errors."""
    alone: list[Line] = []
    queued: list[Line] = []
    for name, arity in sorted(names_of(fleet.engine(engine_name)).items()):
        if name.endswith(":") or name == "POST" or name.split()[0] in ENDLESS or covered()[name].skip:
            continue
        lines = [Line(name)] if abs(arity) > len(name.split()) else []
        if arity > 0:
            lines.append(Line(name + " x" * arity))
        alone += lines
        queued += [] if name in UNTELLABLE or name in TRANSACTIONAL else [Line("MULTI"), *lines, Line("EXEC")]
    scripts = [
        Script("arity", (f"arguments from {lines[start].text}",), [*lines[start : start + 120], Line("PING")])
        for lines in (alone, queued)
        for start in range(0, len(lines), 120)
    ]
    report(compare(fleet, engine_name, pooling, 2, "pipeline", scripts))


@pytest.mark.parametrize("family", families())
@pytest.mark.parametrize(("way", "protocol", "pooling"), SETTINGS)
def test_same_replies(fleet: Fleet, engine_name: str, pooling: bool, protocol: int, way: str, family: str) -> None:
    report(compare(fleet, engine_name, pooling, protocol, way, scripts_of(family)))
