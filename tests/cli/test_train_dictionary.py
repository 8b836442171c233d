"""`keyrail train-dictionary`: a dictionary of stored values, whatever form they are stored in."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from proxy.compression.dictionaries import checked
from proxy.compression.frames import FIELD, STRING, Codec, pack
from proxy.compression.training import Trial, try_dictionary
from proxy.policy.load import load_policy
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of
from tests.engines import EXPECTED, Engine
from tests.resp import pack as request

POLICY = """
keyrail: 1
apps: {acme: {match: {user: acme}}}
tenants: {prefix: "{app}:", apps: [acme]}
rules:
  docs: {compress: {keys: ["doc:*"], above: 256B, also_read: first.zdict}}
"""
NewEngine = Callable[..., Engine]


def policy_in(folder: Path, text: str = POLICY) -> Path:
    (folder / "first.zdict").write_bytes(json_dictionary().content)
    (folder / "policy.yaml").write_text(text)
    return folder / "policy.yaml"


def fill(engine: Engine, count: int) -> None:
    """Values of a rule in all forms, of a tenant, too, and others that are not to be read."""
    r, commands = random.Random(1), list[bytes]()
    for n in range(count):
        value = json_of(r, r.randrange(300, 3000))
        form = n % 4
        if form == 0:
            commands.append(request("SET", f"doc:{n}", value))
        elif form == 1:
            commands.append(request("SET", f"acme:doc:{n}", pack(value, STRING, Codec.ZSTD, 3, 64, json_dictionary())))
        elif form == 2:
            commands.append(request("HSET", f"doc:h{n}", "f", pack(value, FIELD, Codec.LZ4, 0, 64), "small", "x"))
        else:
            commands.append(request("SET", f"doc:{n}", pack(value, STRING, Codec.ZSTD, 3, 64, json_dictionary(2))))
    commands += [request("SET", f"other:{n}", r.randbytes(600)) for n in range(count)]
    commands += [request("SET", f"doc:small{n}", r.randbytes(200)) for n in range(count)]
    commands += [request("SET", f"doc:large{n}", r.randbytes(40_000)) for n in range(10)]
    commands += [request("RPUSH", "doc:list", "a"), request("HSET", "doc:large", "f", r.randbytes(40_000))]
    with engine.wire() as wire:
        wire.send(b"".join(commands))
        assert not [each for each in wire.frames(len(commands)) if each.startswith(b"-")]


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_a_dictionary_of_what_is_stored(
    new_engine: NewEngine, engine_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine, out = new_engine(engine_name), tmp_path / "second.zdict"
    fill(engine, 400)
    before = engine.do("DBSIZE")
    common = ["train-dictionary", "--upstream", engine.url, "--share", "100%", "--out", str(out)]
    assert main([*common, "--policy", str(policy_in(tmp_path))]) == 0
    shown, told = capsys.readouterr()
    assert told.endswith("keyrail: 100 values were left out: they need a dictionary that the rule does not name\n")
    assert f"{out}: a dictionary of " in shown
    assert "trained on 240 values of doc:* above 256 bytes\nOf 60 others, zstd saves " in shown
    assert out.stat().st_mode & 0o777 == 0o600
    dictionary, r = checked(out.read_bytes()), random.Random(2)
    assert f"named {dictionary.name.hex()}" in shown
    values = [json_of(r, r.randrange(300, 900)) for _ in range(50)]
    stored = [sum(len(pack(each, STRING, Codec.ZSTD, 3, 64, by)) for each in values) for by in (None, dictionary)]
    assert stored[1] < stored[0] * 0.7
    assert engine.do("DBSIZE") == before
    named = POLICY.replace("also_read: first.zdict", "dictionary: second.zdict, also_read: first.zdict")
    assert load_policy(policy_in(tmp_path, named)).rules[0].settings.dictionaries == {
        ("doc:*", dictionary.name.hex()),
        ("doc:*", json_dictionary().name.hex()),
    }
    assert main([*common, "--policy", str(policy_in(tmp_path))]) == 2
    assert "the file is there already" in capsys.readouterr().err


def test_the_walk_ends_when_there_are_enough(
    new_engine: NewEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.server.stored.value_sample._MOST_VALUES", 120)
    engine = new_engine("valkey-9.1")
    fill(engine, 4000)
    words = ["train-dictionary", "--upstream", engine.url, "--share", "100%", "--policy", str(policy_in(tmp_path))]
    assert main([*words, "--out", str(tmp_path / "second.zdict")]) == 0
    found = re.search(r"trained on (\d+) values", capsys.readouterr().out)
    assert found is not None
    assert 96 <= int(found[1]) < 300


def test_a_file_that_has_come_meanwhile_stays(
    new_engine: NewEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, out = new_engine("valkey-9.1"), tmp_path / "second.zdict"
    fill(engine, 400)

    def try_late(*given: Any) -> Trial:
        out.write_bytes(json_dictionary(2).content)
        return try_dictionary(*given)

    monkeypatch.setattr("proxy.cli.train_dictionary.try_dictionary", try_late)
    words = ["train-dictionary", "--upstream", engine.url, "--share", "100%", "--policy", str(policy_in(tmp_path))]
    assert main([*words, "--out", str(out)]) == 1
    assert capsys.readouterr().err.endswith(f"cannot write {out}: File exists\n")
    assert out.read_bytes() == json_dictionary(2).content
    assert {each.name for each in tmp_path.iterdir()} == {"first.zdict", "policy.yaml", "second.zdict"}
    monkeypatch.undo()
    lost = tmp_path / "third.zdict"
    lost.symlink_to("nowhere")
    assert main([*words, "--out", str(lost)]) == 2
    assert "the file is there already" in capsys.readouterr().err


def test_what_cannot_be_done(new_engine: NewEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = new_engine("valkey-9.1")
    common = ["train-dictionary", "--upstream", engine.url, "--share", "100%"]
    out = ["--out", str(tmp_path / "second.zdict")]
    file = str(policy_in(tmp_path))

    def complaint(*arguments: str, status: int) -> str:
        assert main([*common, *arguments]) == status
        return capsys.readouterr().err

    assert "found 0 values, expected 100 or more" in complaint("--policy", file, *out, status=1)
    fill(engine, 400)
    engine.do("ACL", "SETUSER", "default", "-getrange", "-hrandfield")
    assert "the server says NOPERM" in complaint("--policy", file, *out, status=1)
    expected = "--rule NAME: expected a rule that compresses, one of docs"
    assert expected in complaint("--policy", file, "--rule", "other", *out, status=2)
    two = policy_in(tmp_path, POLICY + "  more: {compress: {keys: 'more:*'}}\n")
    assert f"{expected}, more" in complaint("--policy", str(two), *out, status=2)
    none = policy_in(tmp_path, "keyrail: 1\nrules: {}\n")
    assert "none in this policy" in complaint("--policy", str(none), *out, status=2)
    nowhere = str(tmp_path / "none" / "x.zdict")
    told = complaint("--policy", str(policy_in(tmp_path)), "--out", nowhere, status=2)
    assert "No such file or directory" in told
    assert not (tmp_path / "second.zdict").exists()
