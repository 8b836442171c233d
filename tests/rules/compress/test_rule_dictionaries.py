"""Dictionaries that a rule names: what is compressed and read with them, and files that are none."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random

import pytest

from proxy.commands.table import STANDARD
from proxy.compression.dictionaries import LARGEST
from proxy.compression.frames import FIELD, STRING, Codec, pack
from proxy.policy.compile import PolicyCompiler
from proxy.policy.model import Policy
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.verdict import Rewrite
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of
from tests.policy.given import policy_files
from tests.rules.given import command, context

ONE, OTHER = json_dictionary(), json_dictionary(2)
JSON = json_of(Random(5), 600)


def in_folder(folder: Path, rule: str) -> Policy:
    """A policy with two dictionaries beside it."""
    (folder / "one.zdict").write_bytes(ONE.content)
    (folder / "other.zdict").write_bytes(OTHER.content)
    (folder / "text.zdict").write_bytes(b"text")
    (folder / "large.zdict").write_bytes(bytes(LARGEST + 1))
    return policy_files(folder, {"policy.yaml": f"keyrail: 1\nrules: {{docs: {{compress: {rule}, mode: enforce}}}}\n"})


def test_values_are_compressed_with_the_dictionary_and_read_with_all(tmp_path: Path) -> None:
    rules = in_folder(tmp_path, "{keys: 'doc:*', above: 256B, dictionary: one.zdict, also_read: [other.zdict]}")
    assert [Path(file).name for file in rules.files] == ["policy.yaml", "one.zdict", "other.zdict"]
    assert pickle.loads(pickle.dumps(rules)) == rules
    docs = PolicyCompiler(rules, STANDARD).bind(None)
    for text, version in (("SET doc:1", STRING), ("HSET doc:1 f", FIELD)):
        verdict = docs.judge(command(text, JSON), context()).verdict
        assert isinstance(verdict, Rewrite)
        assert verdict.argv[-1] == pack(JSON, version, Codec.ZSTD, 3, 256, ONE)
    for text in ("GET doc:1", "MGET doc:1 other", "SORT list GET doc:*", "GETRANGE doc:1 0 -1"):
        decision = docs.judge(command(text), context())
        edit = decision.edit if decision.edit is not None else getattr(decision.verdict, "edit", None)
        assert edit is not None
        for dictionary in (ONE, OTHER, None):
            stored = pack(JSON, STRING, Codec.ZSTD, 3, 256, dictionary)
            one = b"$%d\r\n%b\r\n"
            begin = b"*1\r\n" if text.startswith(("MGET", "SORT")) else b""
            assert edit(begin + one % (len(stored), stored)) == begin + one % (len(JSON), JSON)


def test_dictionaries_that_are_only_read_compress_nothing(tmp_path: Path) -> None:
    for more in ("codec: zstd", "codec: lz4"):
        rules = in_folder(tmp_path, f"{{keys: 'doc:*', above: 256B, {more}, also_read: [one.zdict]}}")
        verdict = PolicyCompiler(rules, STANDARD).bind(None).judge(command("SET doc:1", JSON), context()).verdict
        assert isinstance(verdict, Rewrite)
        assert verdict.argv[-1][3] == STRING


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ("dictionary: text.zdict", "compress.dictionary: found"),
        (
            "dictionary: large.zdict",
            "dictionary: found 'large.zdict', expected a zstd dictionary of at most 256 KB",
        ),
        ("dictionary: none.zdict", "compress.dictionary: found 'none.zdict' (No such file or directory)"),
        ("dictionary: one.zdict, codec: lz4", "compress.dictionary: found a dictionary with codec: lz4"),
        (f"also_read: [{', '.join(['one.zdict'] * 17)}]", "compress.also_read: found 17 files"),
    ],
)
def test_files_that_are_no_dictionaries(tmp_path: Path, more: str, wrong: str) -> None:
    with pytest.raises(PolicyError) as raised:
        in_folder(tmp_path, f"{{keys: 'doc:*', {more}}}")
    (found,) = map(str, raised.value.problems)
    assert wrong in found


def test_without_the_codecs_a_dictionary_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.rules.compress.yaml.missing", lambda: "backports.zstd")
    with pytest.raises(PolicyError, match=r"without the package backports\.zstd"):
        in_folder(tmp_path, "{keys: 'doc:*', dictionary: text.zdict}")
