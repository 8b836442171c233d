"""Replies from the local cache are those of Redis, byte for byte.

Proves: every script about a command, with each cached read sent three times in a row, is answered through a Keyrail
that caches all keys as it is directly, in RESP2 and RESP3, one command at a time and in pipelines; and every read that
is cached has been answered from memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.commands.cached_reads import CACHED_READS, depends_on_whole_hash
from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.table import STANDARD
from tests.commands.test_cached_reads import KEYS, VALUES, reads_of
from tests.conftest import Fleet
from tests.differential.runner import applies, differences, run
from tests.differential.script import Line, Script, families, scripts_of
from tests.differential.test_commands import Cleaner, report
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually, words

POLICY = """
keyrail: 1
rules:
  cached:
    local_cache: {keys: ["*"], when: always, max_age: 60s}
    mode: enforce
"""
TIMES = 3
WAYS = [
    ("step", 3),
    ("pipeline", 2),
    pytest.param("step", 2, marks=pytest.mark.long),
    pytest.param("pipeline", 3, marks=pytest.mark.long),
]

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay has no cache")


@pytest.fixture
def engines(fleet: Fleet, engine_name: str) -> tuple[Engine, Engine]:
    """The one that is asked directly, and the one behind Keyrail."""
    return fleet.engine(engine_name, "reference"), fleet.engine(engine_name)


@pytest.fixture
def keyrail(fleet: Fleet, engine_name: str, tmp_path: Path) -> Keyrail:
    file = tmp_path / "cached.yaml"
    file.write_text(POLICY)
    return fleet.keyrail(engine_name, policy=file)


def is_cached(line: Line) -> bool:
    return words(line.text)[0].decode().upper() in CACHED_READS and line.frames == 1


def repeated(script: Script) -> Script:
    """The script with each cached read sent several times."""
    lines = [
        each
        for line in script.lines
        for each in ([replace(line, save=None)] * (TIMES - 1) + [line] if is_cached(line) else [line])
    ]
    return replace(script, lines=lines)


OBSERVED = ("TYPE", "GET", "LRANGE . 0 -1", "HLEN")
MOST_KEYS = 2


def keys_of(line: Line) -> list[str]:
    """Names of keys that can be written as they are."""
    argv = words(line.text)
    if not argv or "$" in line.text:
        return []
    try:
        names = [key.name for key in Command(STANDARD, argv).keys]
    except KeysUnknownError:
        return []
    return [name.decode() for name in names if name.isalnum() and name.isascii()]


def observed(script: Script) -> Script:
    """The script with some reads, which are in memory by then, of the keys that it has used last behind each line."""
    lines: list[Line] = []
    used: dict[str, None] = {}
    inside = False
    for line in script.lines:
        lines.append(line)
        verb = line.text.split(" ")[0].upper()
        inside = verb == "MULTI" or (inside and verb not in ("EXEC", "DISCARD"))
        for name in keys_of(line):
            used.pop(name, None)
            used[name] = None
        if line.frames == 1 and not inside:
            lines += [
                Line(f"{read.replace('.', name, 1)}" if "." in read else f"{read} {name}")
                for name in list(used)[-MOST_KEYS:]
                for read in OBSERVED
            ]
    return replace(script, lines=lines)


@pytest.mark.parametrize("family", families())
@pytest.mark.parametrize(("way", "protocol"), WAYS)
def test_scripts(engines: tuple[Engine, Engine], keyrail: Keyrail, protocol: int, way: str, family: str) -> None:
    scripts = [repeated(script) for script in scripts_of(family) if applies(script, way, protocol, pooling=True)]
    compare(engines, keyrail, protocol, way, scripts)


@pytest.mark.parametrize("family", families())
@pytest.mark.parametrize(("way", "protocol"), WAYS)
def test_whatever_writes(
    engines: tuple[Engine, Engine], keyrail: Keyrail, protocol: int, way: str, family: str
) -> None:
    """Behind each command, its client reads what the keys hold now, although memory has what they held before."""
    scripts = [observed(script) for script in scripts_of(family) if applies(script, way, protocol, pooling=True)]
    compare(engines, keyrail, protocol, way, scripts)


def compare(engines: tuple[Engine, Engine], keyrail: Keyrail, protocol: int, way: str, scripts: list[Script]) -> None:
    cleaners = [Cleaner(engine) for engine in engines]
    found: list[str] = []
    for script in scripts:
        for cleaner in cleaners:
            cleaner.clean()
        direct = run(way, script, engines[0].address, protocol)
        found += differences(script, direct, run(way, script, keyrail.address, protocol))
    for cleaner in cleaners:
        cleaner.wire.close()
    report(found)


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
def test_every_cached_read(engines: tuple[Engine, Engine], keyrail: Keyrail, protocol: int) -> None:
    """Of values of each type, and of a missing key."""
    engine = engines[1]
    engine.do("FLUSHALL")
    for value in VALUES:
        engine.do(*words(value))
    with keyrail.wire() as wire:
        eventually(lambda: _ran(engine, "get", lambda: wire.ask("GET", "string")) == 0)
    fields_expire = engine.kind.name == "valkey" and engine.kind.version >= (9,)
    for name, read in CACHED_READS.items():
        found = [argv for key in KEYS for argv in reads_of(key) if argv[0].decode() == name]
        lines = [Line(" ".join(word.decode() for word in argv)) for argv in found for _ in range(TIMES)]
        script = Script("cached", ("all",), lines)
        direct = run("step", script, engine.address, protocol)
        failed = sum(answer.frames[0].startswith(b"-") for answer in direct if answer.frames)
        before = engine.calls(name)
        report(differences(script, direct, run("step", script, keyrail.address, protocol)))
        ran = engine.calls(name) - before
        if fields_expire and depends_on_whole_hash(read):
            assert ran == len(lines), f"{name} cannot be kept"
        else:
            # Redis answers errors, and each is fetched once; of other replies it sends all but the last at most.
            most = (len(lines) - failed) // TIMES * (TIMES - 1) + failed // TIMES * (TIMES + 1)
            assert ran <= most, f"{name} was asked {len(lines)} times"


def _ran(engine: Engine, name: str, act: Callable[[], object]) -> int:
    """How often the engine has run a command meanwhile."""
    before = engine.calls(name)
    act()
    return engine.calls(name) - before
