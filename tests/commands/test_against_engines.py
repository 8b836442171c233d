"""The table and the key finder, compared with running engines: COMMAND, COMMAND GETKEYS and GETKEYSANDFLAGS."""

import random
from collections.abc import Iterator
from pathlib import Path

import hiredis
import pytest

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.creation import created_keys, creation_of
from proxy.commands.generate import main, read_engine
from proxy.commands.recorded import Recorded
from proxy.commands.table import STANDARD, Spec
from tests.commands.invocations import INVOCATIONS, split
from tests.conftest import Fleet
from tests.engines import NEWEST_REDIS
from tests.resp import Failure, Value, Wire


@pytest.fixture
def recorded(fleet: Fleet, engine_name: str) -> list[Recorded]:
    return read_engine(fleet.engine(engine_name).url)


@pytest.fixture
def wire(fleet: Fleet, engine_name: str) -> Iterator[Wire]:
    with fleet.engine(engine_name).wire() as wire:
        yield wire


def test_the_table_knows_every_command_of_the_engine(recorded: list[Recorded]) -> None:
    unknown = [found.description.name for found in recorded if STANDARD.find(found.description.name) is None]
    assert unknown == []
    assert len(recorded) > 200


def test_flags_that_decide_something_hold_on_every_engine(recorded: list[Recorded], engine_name: str) -> None:
    for found in recorded:
        spec, said = STANDARD.find(found.description.name), found.description
        assert spec is not None
        if "module" in said.flags:  # of vector sets in Redis 8: the module declares no arity
            assert spec.write >= ("write" in said.flags), spec.name
            continue
        assert engine_name in spec.engines, spec.name
        # Containers are plain commands before Redis 7, flagged as the worst of what is now their subcommands.
        if not spec.container:
            assert spec.write >= ("write" in said.flags), spec.name
            assert ("blocking" in spec.flags) >= ("blocking" in said.flags), spec.name
            # An arity that is looser than the engine's refuses nothing that the engine would take.
            assert abs(spec.arity) <= abs(said.arity), spec.name
            assert spec.arity < 0 or spec.arity == said.arity, spec.name


def test_a_running_engine_adds_nothing_to_the_table(fleet: Fleet, engine_name: str) -> None:
    for protocol in (2, 3):
        reader = hiredis.Reader()
        with fleet.engine(engine_name).wire(protocol) as wire:
            reader.feed(wire.ask("COMMAND"))
        completed = STANDARD.completed_by(reader.gets())
        assert completed.specs == STANDARD.specs


NO_KEYS = b"The command has no key arguments"


def asked(wire: Wire, argv: list[bytes]) -> list[bytes] | Failure:
    """The keys that the engine finds, or its error where it finds none."""
    value = wire.value("COMMAND", "GETKEYS", *argv)
    if isinstance(value, Failure):
        return value
    assert isinstance(value, list)
    return [key for key in value if isinstance(key, bytes)]


def ours(argv: list[bytes]) -> list[bytes] | None:
    """The keys that Keyrail finds; None where it says that it cannot tell."""
    try:
        return [key.name for key in Command(STANDARD, argv).keys]
    except KeysUnknownError:
        return None


def known(wire: Wire, argv: list[bytes]) -> bool:
    """Whether the engine has the command: each of these differs in what it says of one that it lacks."""
    value = wire.value("COMMAND", "INFO", argv[0])
    return isinstance(value, list) and isinstance(value[0], list)


def test_keys_agree(wire: Wire, engine_name: str) -> None:
    compared = 0
    for line, expected in INVOCATIONS:
        engine_keys = asked(wire, split(line)) if known(wire, split(line)) else None
        if isinstance(engine_keys, Failure):
            engine_keys = [] if NO_KEYS in engine_keys.text else None
        if engine_keys is not None:
            found = [key.rpartition(":")[0].encode() for key in expected.split()]
            # Before Redis 7 a destination is reported last.
            same = sorted(engine_keys) == sorted(found) if engine_name == "redis-6.2" else engine_keys == found
            assert same, f"{line}: {engine_keys}"
            compared += 1
    assert compared > 70


def test_access_agrees(wire: Wire, engine_name: str) -> None:
    if engine_name.startswith("redis-6"):
        pytest.skip("COMMAND GETKEYSANDFLAGS came with Redis 7")
    for line, expected in INVOCATIONS:
        # The engine says RW of PFCOUNT, because it writes its own cache into the key; to a policy it is a read.
        if known(wire, split(line)) and not line.startswith("PFCOUNT"):
            value = wire.value("COMMAND", "GETKEYSANDFLAGS", *split(line))
            found = [] if isinstance(value, Failure) else _items(value)
            assert " ".join(_key_and_access(item) for item in found) == expected, line


def _items(value: Value) -> list[Value]:
    assert isinstance(value, list)
    return value


def _key_and_access(item: Value) -> str:
    key, flags = _items(item)
    assert isinstance(key, bytes)
    return f"{key.decode()}:{'r' if b'RO' in _items(flags) else 'w'}"


WORDS = [b"0", b"1", b"2", b"3", b"k1", b"k2", b"k3", b"-1", b"", b"WEIGHTS", b"COUNT", b"LEFT", b"x"]

WALKED = {"SORT", "SORT_RO", "MIGRATE", "GEORADIUS", "GEORADIUSBYMEMBER", "XREAD", "XREADGROUP"}
"""Commands whose keys are found as the command finds them, which on purpose is not always what GETKEYS says: here they
get arguments that Redis takes."""


def test_keys_agree_on_random_arguments(wire: Wire, engine_name: str) -> None:
    if engine_name.startswith("redis-6"):
        pytest.skip("before Redis 7 keys came from hand-written functions with other ideas about malformed requests")
    chosen = random.Random(2)
    unknown = 0
    for spec in STANDARD.specs[1:]:
        if engine_name not in spec.engines or spec.container or spec.name in WALKED:
            continue
        for _ in range(12):
            argv = _random_argv(spec, chosen)
            theirs, found = asked(wire, argv), ours(argv)
            unknown += found is None
            if theirs == []:  # EVAL, whose count is beyond its arguments
                assert not found, argv
            elif not isinstance(theirs, Failure):
                assert theirs == found, argv
            elif b"number of arguments" not in theirs.text:
                # What the engine calls malformed has keys that are not known, or more than it finds; never none,
                # but where it is said to have no key (BLMPOP 1 0 LEFT).
                assert (found == []) is (NO_KEYS in theirs.text) or b"0" in argv, argv
    assert unknown > 50


def test_access_agrees_on_random_arguments(wire: Wire, engine_name: str) -> None:
    if engine_name.startswith("redis-6"):
        pytest.skip("COMMAND GETKEYSANDFLAGS came with Redis 7")
    chosen, compared = random.Random(4), 0
    for spec in STANDARD.specs[1:]:
        if engine_name not in spec.engines or spec.container or spec.name in WALKED | {"BITFIELD", "PFCOUNT"}:
            continue
        for _ in range(4):
            argv = _random_argv(spec, chosen)
            value = wire.value("COMMAND", "GETKEYSANDFLAGS", *argv)
            if not isinstance(value, Failure) and value != []:
                keys = Command(STANDARD, argv).keys
                found = [b"%b:%b" % (key.name, b"w" if key.write else b"r") for key in keys]
                assert [_key_and_access(item).encode() for item in _items(value)] == found, argv
                compared += 1
    assert compared > 400


def test_keys_agree_where_commands_are_walked(wire: Wire, engine_name: str) -> None:
    chosen = random.Random(3)
    for _ in range(700):
        argv = _walked_argv(chosen)
        theirs, found = asked(wire, argv), ours(argv)
        assert isinstance(theirs, list), argv
        assert found is not None, argv
        # Of several STOREs an engine finds the first or the last; of SORT it runs only the last.
        assert set(theirs) <= set(found), (argv, engine_name)
        assert len(found) - len(theirs) in ((0, 1, 2, 3) if argv[0].startswith(b"GEO") else (0,)), argv


def _walked_argv(chosen: random.Random) -> list[bytes]:
    """A command of those that Redis takes, its options in any order, as often as there is room for."""

    def word(text: str) -> bytes:
        mixed = "".join(chosen.choice((letter.lower(), letter)) for letter in text)
        return mixed.encode() + chosen.choice((b"", b"", b"\0", b"\0x", b"\0" + b"x" * 70))

    def options(*lines: str) -> list[bytes]:
        found = []
        for line in chosen.choices(lines, k=chosen.randrange(5)):
            first, *rest = line.split()
            found += [word(first), *(each.encode() + b"%d" % chosen.randrange(9) for each in rest)]
        return found

    keys = [b"k%d" % i for i in range(chosen.randrange(1, 4))]
    match chosen.randrange(6):
        case 0:
            return [b"SORT", b"k", *options("BY w", "GET g", "LIMIT 0 5", "ALPHA", "STORE d")]
        case 1:
            moved = chosen.random() < 0.5
            asked_for = [b"", b"0", b"1", *options("COPY", "REPLACE", "AUTH p", "AUTH2 u p"), word("KEYS"), *keys]
            return [b"MIGRATE", b"h", b"1", *(asked_for if moved else [b"k", b"0", b"1", *options("COPY", "AUTH p")])]
        case 2:
            return [b"GEORADIUS", b"k", b"0", b"0", b"1", b"m", *options("ASC", "COUNT 1", "STORE d", "STOREDIST e")]
        case 3:
            return [b"GEORADIUSBYMEMBER", b"k", b"m", b"1", b"m", *options("WITHDIST", "STORE d", "STOREDIST e")]
        case 4:
            return [b"XREAD", *options("COUNT 1", "BLOCK 1"), word("STREAMS"), *keys, *[b"0"] * len(keys)]
        case _:
            read = [b"XREADGROUP", word("GROUP"), b"g", b"c", *options("COUNT 1", "BLOCK 1", "NOACK")]
            return [*read, word("STREAMS"), *keys, *[b">"] * len(keys)]


def test_of_several_destinations_all_are_keys_and_the_last_is_written(wire: Wire) -> None:
    wire.value(*split("FLUSHALL"))
    wire.value(*split("GEOADD g 1 1 m"))
    for line, written in (
        ("GEORADIUS g 1 1 1 m STORE a STOREDIST b", "b"),
        ("GEORADIUSBYMEMBER g m 1 m STOREDIST c STORE d", "d"),
    ):
        assert wire.value(*split(line)) == 1
        assert wire.value("DEL", written) == 1
        command = Command(STANDARD, split(line))
        creation = creation_of(command.spec)
        assert creation is not None
        assert created_keys(command, creation) == (written.encode(),)
    assert wire.value("EXISTS", "a", "c") == 0


def _random_argv(spec: Spec, chosen: random.Random) -> list[bytes]:
    name = [word.encode() for word in spec.name.split("|")]
    most = abs(spec.arity) + (chosen.randrange(6) if spec.arity < 0 else 0)
    return [*name, *chosen.choices(WORDS, k=max(0, most - len(name)))]


def test_commands_really_use_the_keys_that_are_found_against_their_specifications(wire: Wire) -> None:
    for line in ("FLUSHALL", "RPUSH k 1", "SORT k STORE get STORE sorted"):
        wire.value(*split(line))
    assert wire.value("EXISTS", "sorted", "get") == 1
    for line in ("GEOADD g 1 1 m", "GEORADIUS g 1 1 1 m STORE storedist STORE near"):
        wire.value(*split(line))
    assert wire.value("EXISTS", "near", "storedist") == 1
    for line in ("XADD s 1-1 f v", "XGROUP CREATE s STREAMS 0"):
        wire.value(*split(line))
    reply = wire.value(*split("XREADGROUP NOACK GROUP STREAMS STREAMS STREAMS s >"))
    assert isinstance(reply, list)
    assert _items(reply[0])[0] == b"s"


def test_the_invocations_name_every_command_that_hides_its_keys() -> None:
    named = {line.split()[0] for line, _ in INVOCATIONS}
    hiding = {spec.name for spec in STANDARD.specs if "movablekeys" in spec.flags}
    assert hiding - named <= {"EVALSHA_RO", "STRALGO", "ZDIFF", "ZINTER"}


def test_generate_writes_a_table_that_the_overlay_covers(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "generated.json"
    assert main(["--server", fleet.engine("valkey-9.1").url, "--output", str(target)]) == 1
    assert "HOST:: it has a row, but no engine knows it" in capsys.readouterr().err
    assert not target.exists()
    servers = [
        part for name in ("valkey-9.1", NEWEST_REDIS, "redis-6.2") for part in ("--server", fleet.engine(name).url)
    ]
    assert main([*servers, "--output", str(target)]) == 0
    assert target.read_text().startswith('{"engines": [')
