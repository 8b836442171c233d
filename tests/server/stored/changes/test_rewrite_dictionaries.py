"""Stored values get the present dictionary of their rule, so that another one can go; and are made plain again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from proxy.cli import main
from proxy.compression.frames import FIELD, STRING, Codec, dictionary_of, pack, unpack
from proxy.rules.compress.stored_form import Left
from proxy.server.stored.changes.rewritten import Rewritten
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of
from tests.engines import EXPECTED, NEWEST_REDIS, Engine

FIRST, SECOND, LOST = map(json_dictionary, (1, 2, 3))
KNOWN = {each.name: each for each in (FIRST, SECOND, LOST)}
POLICY = """keyrail: 1
defaults: {mode: enforce}
apps: {acme: {match: {user: acme}}}
tenants: {prefix: "{app}:", apps: [acme]}
rules: {docs: {compress: {keys: ["doc:*"], above: 64B, MORE}}}
"""
TEXTS = [json_of(random.Random(n), 300 + 40 * n) for n in range(12)]
FORMS = (None, FIRST, SECOND)
LARGE = bytes(2 << 20)
Verb = Callable[..., tuple[int, dict[str, object], str]]
NewEngine = Callable[..., Engine]


@pytest.fixture
def verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verb:
    for name, dictionary in (("first", FIRST), ("second", SECOND)):
        (tmp_path / f"{name}.zdict").write_bytes(dictionary.content)
    file = tmp_path / "policy.yaml"

    def run(engine: Engine, more: str, *arguments: str) -> tuple[int, dict[str, object], str]:
        file.write_text(POLICY.replace("MORE", more))
        words = ["transform", "--upstream", engine.url, "--policy", str(file), "--share", "100%", "--json", *arguments]
        status = main(words)
        shown = capsys.readouterr()
        return status, json.loads(shown.out), shown.err

    return run


def fill(engine: Engine) -> None:
    """Strings and fields: plain, and compressed in each way."""
    for n, text in enumerate(TEXTS):
        forms = [text, *(pack(text, STRING, Codec.ZSTD, 3, 64, each) for each in FORMS)]
        engine.do("SET", f"{'acme:' * (n % 3 == 0)}doc:{n}", forms[n % 4], "EX", 9000)
        fields = [text, *(pack(text, FIELD, Codec.ZSTD, 3, 64, each) for each in FORMS)]
        engine.do("HSET", "doc:h", f"f{n}", fields[n % 4])


def stored(engine: Engine) -> tuple[list[bytes], list[bytes]]:
    strings = [engine.do("GET", f"{'acme:' * (n % 3 == 0)}doc:{n}") for n in range(len(TEXTS))]
    fields = engine.do("HMGET", "doc:h", *(f"f{n}" for n in range(len(TEXTS))))
    return cast("list[bytes]", strings), cast("list[bytes]", fields)


@pytest.mark.parametrize("engine_name", [*EXPECTED, NEWEST_REDIS])
def test_from_one_dictionary_to_another_and_back(new_engine: NewEngine, engine_name: str, verb: Verb) -> None:
    engine = new_engine(engine_name)
    fill(engine)
    before = stored(engine)
    steps = (
        ("dictionary: first.zdict, also_read: second.zdict", FIRST.name, 18),
        ("dictionary: second.zdict, also_read: first.zdict", SECOND.name, 24),
        ("codec: lz4, also_read: second.zdict", b"", 24),
        ("codec: zstd, also_read: second.zdict", b"", 24),
        ("dictionary: second.zdict", SECOND.name, 24),
    )
    for more, name, values in steps:
        was = stored(engine)
        status, told, _ = verb(engine, more, "--dry-run")
        assert (status, told["values"], stored(engine)) == (0, values, was)
        status, told, _ = verb(engine, more, "--yes")
        assert (status, told["values"], told["left_alone"]) == (0, values, {})
        for version, its in zip((STRING, FIELD), stored(engine), strict=True):
            assert [unpack(each, version, KNOWN) for each in its] == TEXTS
            assert {dictionary_of(each, version) for each in its} == {name}
        assert verb(engine, more, "--dry-run")[1]["values"] == 0
        assert 8900 < cast("int", engine.do("TTL", "doc:1")) <= 9000
    assert stored(engine) != before
    status, told, _ = verb(engine, "dictionary: second.zdict", "--back", "--yes")
    assert (status, told["values"], stored(engine)) == (0, 24, (TEXTS, TEXTS))
    assert 8900 < cast("int", engine.do("TTL", "doc:1")) <= 9000


@pytest.mark.parametrize("back", [[], ["--back"]])
def test_a_missing_dictionary_is_named_and_its_values_stay(new_engine: NewEngine, verb: Verb, back: list[str]) -> None:
    engine = new_engine("valkey-9.1")
    string, field = (pack(TEXTS[0], version, Codec.ZSTD, 3, 64, LOST) for version in (STRING, FIELD))
    engine.do("MSET", "doc:lost", string, "doc:other", pack(TEXTS[1], STRING, Codec.ZSTD, 3, 64, FIRST))
    engine.do("HSET", "doc:h", "lost", field, "plain", TEXTS[1])
    more = "dictionary: second.zdict, also_read: first.zdict"
    status, told, errors = verb(engine, more, "--yes", *back)
    assert (status, told["values"]) == ((1, 1) if back else (0, 2))
    assert told["left_alone"] == {
        f"values compressed with the dictionary {LOST.name.hex()}, which the rule does not name": 2
    }
    assert ("keyrail: still compressed: 2 values\n" in errors) == bool(back)
    assert engine.do("GET", "doc:lost") == string
    assert engine.do("HGET", "doc:h", "lost") == field
    other, plain = engine.do("GET", "doc:other"), engine.do("HGET", "doc:h", "plain")
    assert isinstance(other, bytes)
    assert isinstance(plain, bytes)
    assert (unpack(other, STRING, KNOWN), unpack(plain, FIELD, KNOWN)) == (TEXTS[1], TEXTS[1])
    assert (dictionary_of(other, STRING), plain[:1]) == (b"" if back else SECOND.name, b"[" if back else b"\x00")


def test_a_large_value_that_keeps_its_dictionary_is_told(new_engine: NewEngine, verb: Verb) -> None:
    engine, value = new_engine("valkey-9.1"), pack(LARGE, STRING, Codec.ZSTD, 1, 0, FIRST)
    engine.do("SET", "doc:1", value)
    status, told, _ = verb(engine, "dictionary: second.zdict, also_read: first.zdict", "--yes")
    assert (status, told["values"], engine.do("GET", "doc:1")) == (0, 0, value)
    assert told["left_alone"] == {f"values of more than 1 MB compressed with the dictionary {FIRST.name.hex()}": 1}


def test_of_very_many_names_the_first_are_told() -> None:
    found = Rewritten()
    for n in range(1000):
        found.leave(Left(f"reason {n % 500}"))
    assert (len(found.left), found.left.total(), found.left[Left("reason 1")]) == (31, 1000, 2)
