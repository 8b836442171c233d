"""The analysis of scripts is sound: it finds every command that an engine runs for a script, with its arguments, and
every key is declared, a literal, or known to be neither."""

from __future__ import annotations

import re
from random import Random

import pytest

from proxy.commands.table import STANDARD
from proxy.rules.scripts.calls import Inputs, PreparedCall
from proxy.rules.scripts.text import EVERY, ScriptCall, ScriptCalls, read_script
from tests.conftest import Fleet, kind_named
from tests.guardrails.scripts import ARGUMENTS, KEYS, as_library, random_script
from tests.resp import Wire

SCRIPTS = 800
_LINE = re.compile(rb"\+[0-9.]+ \[\d+ (?P<who>\S+)\] (?P<words>.*)\r\n", re.DOTALL)
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')


@pytest.mark.parametrize("as_function", [False, True], ids=["script", "function"])
@pytest.mark.parametrize("name", ["valkey-9.1", "redis-7.0"])
def test_whatever_runs_has_been_read(fleet: Fleet, name: str, as_function: bool) -> None:
    engine = fleet.engine(kind_named(name).name)
    random = Random(7)
    inputs = Inputs() if as_function else Inputs(KEYS, ARGUMENTS)
    told = dynamic = touched = 0
    with engine.wire() as wire, engine.wire() as monitor, engine.wire() as asking:
        monitor.ask("MONITOR")
        for number in range(SCRIPTS // 2 if as_function else SCRIPTS):
            text = random_script(random)
            if as_function:
                text = as_library(text, random)
                loaded = wire.ask("FUNCTION", "LOAD", "REPLACE", text)
                if loaded != b"$1\r\nl\r\n":
                    assert b"compiling" in loaded, (text, loaded)
                    continue
                wire.ask("FCALL", "f", len(KEYS), *KEYS, *ARGUMENTS)
            else:
                wire.ask("EVAL", text, len(KEYS), *KEYS, *ARGUMENTS)
            found = read_script(text)
            for argv in _ran(wire, monitor, number):
                told += _is_read(found, inputs, argv, text)
                dynamic += bool(found.dynamic)
                touched += _keys_are_read(asking, found, inputs, argv, text)
            wire.ask("DEL", "declared:1", "declared:2")
        assert told > number / 2
        assert touched > number / 2
        assert dynamic < told
    engine.do("FUNCTION", "FLUSH")
    engine.do("FLUSHALL")


def _ran(wire: Wire, monitor: Wire, number: int) -> list[list[bytes]]:
    """The commands that scripts have run since the last time."""
    marker = b"marker:%d" % number
    wire.ask("ECHO", marker)
    ran: list[list[bytes]] = []
    while True:
        (line,) = monitor.frames(1)
        match = _LINE.fullmatch(line)
        assert match is not None, line
        words = [_unquoted(word) for word in _WORD.findall(match["words"])]
        if words == [b"ECHO", marker]:
            return ran
        if match["who"] in (b"lua", b"script"):
            ran.append(words)


def _unquoted(word: bytes) -> bytes:
    return word.decode("unicode_escape").encode("latin-1")


def _is_read(found: ScriptCalls, inputs: Inputs, argv: list[bytes], text: bytes) -> bool:
    """Whether the command was read; a script that is dynamic may run others."""
    matching = [call for call in found.calls if _fits(call, inputs, argv)]
    assert matching or found.dynamic, (text, argv, found)
    return bool(matching)


def _fits(call: ScriptCall, inputs: Inputs, argv: list[bytes]) -> bool:
    called = PreparedCall(STANDARD, call).called(inputs)
    known = [inputs.of(word) for word in call.words]
    complete, last = call.complete, call.words[-1]
    if not isinstance(last, bytes) and last.index == EVERY:
        values = inputs.all(last)
        known, complete = [*known[:-1], *(values or ())], values is not None
    if len(known) > len(argv) or (complete and len(known) != len(argv)):
        return False
    if len(called.argv) > len(argv):
        return False
    pairs = list(zip(known, argv, strict=False))
    name = pairs[0][0]
    if name is None or name.upper() != argv[0].upper():
        return False
    return all(value is None or value == word for value, word in pairs[1:])


def _keys_are_read(asking: Wire, found: ScriptCalls, inputs: Inputs, argv: list[bytes], text: bytes) -> int:
    """How many keys the command touches that its call was known to touch."""
    keys = asking.value("COMMAND", "GETKEYS", *argv)
    touched = [key for key in keys if isinstance(key, bytes)] if isinstance(keys, list) else []
    for call in found.calls:
        called = PreparedCall(STANDARD, call).called(inputs)
        # Declared keys are judged with the command that declares them, whichever of them it is.
        if _fits(call, inputs, argv) and (
            called.undeclared or {*touched} <= {*KEYS, *(key.name for key in called.keys)}
        ):
            return len(touched)
    assert found.dynamic, (text, argv, touched, found)
    return 0
