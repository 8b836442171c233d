"""Every command, with real arguments, answers the same through Keyrail as directly: byte for byte.

Proves: replies are the same pooled and not, in RESP2 and RESP3, however the bytes are cut; a MULTI…EXEC that arrives whole, and one
that arrives in steps, give what Redis gives, refused commands in it included; a command that no table knows is forwarded and its error is the
engine's own; every command of the table has a script here or a reason why it has none.
"""

from __future__ import annotations

import pytest

from tests.conftest import Fleet
from tests.differential.runner import WAYS, applies, differences, run
from tests.differential.script import Script, families, scripts_of
from tests.engines import Engine
from tests.resp import Wire, commands

CLEAN = ("FLUSHALL", "SCRIPT FLUSH", "CONFIG RESETSTAT", "SLOWLOG RESET", "FUNCTION FLUSH", "PING the-end")


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
        if not applies(way, script):
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


@pytest.mark.parametrize("family", families())
@pytest.mark.parametrize("way", WAYS)
def test_same_replies(fleet: Fleet, engine_name: str, pooling: bool, protocol: int, way: str, family: str) -> None:
    report(compare(fleet, engine_name, pooling, protocol, way, scripts_of(family)))
