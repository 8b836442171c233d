"""A scan judges compressed strings by their plain sizes, says the stored ones beside them, and counts the values of
each rule by their form; the values themselves stay where they are."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from proxy.cli import main
from proxy.compression.frames import MAGIC, STRING, Codec, pack
from proxy.server.stored.json_form import as_json, from_json
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of
from tests.engines import EXPECTED, NEWEST_REDIS, Engine

zstd = pytest.importorskip("compression.zstd" if __import__("sys").version_info >= (3, 14) else "backports.zstd")
POLICY = """keyrail: 1
defaults: {mode: enforce}
apps: {acme: {match: {user: acme}}}
tenants: {prefix: "{app}:", apps: [acme]}
rules:
  docs: {compress: {keys: ["doc:*"], above: 64B, dictionary: first.zdict, also_read: second.zdict}}
  small: {sizes: {value: 2000B}}
"""
TEXT = json_of(random.Random(1), 50_000)
SHORT = json_of(random.Random(1), 1500)
Scanned = Callable[..., tuple[dict[str, Any], str]]


def streamed(value: bytes) -> bytes:
    """A value whose frame does not tell its size."""
    compressor = zstd.ZstdCompressor()
    return MAGIC + b"\x00\x01" + cast("bytes", compressor.compress(value) + compressor.flush())


@pytest.fixture
def scanned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Scanned:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    for seed, name in enumerate(("first", "second"), 1):
        (tmp_path / f"{name}.zdict").write_bytes(json_dictionary(seed).content)

    def scan(engine: Engine, *options: str) -> tuple[dict[str, Any], str]:
        words = ["scan", "--upstream", engine.url, "--policy", str(file), "--share", "100%", *options]
        assert main([*words, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert main(words) == 0
        return told, capsys.readouterr().out

    return scan


def fill(engine: Engine) -> None:
    stored = {codec: pack(TEXT, STRING, codec, 3, 64) for codec in Codec}
    engine.do("MSET", "doc:zstd", stored[Codec.ZSTD], "doc:lz4", stored[Codec.LZ4], "acme:doc:1", stored[Codec.ZSTD])
    engine.do("MSET", "doc:small", pack(TEXT[:1900], STRING, Codec.ZSTD, 3, 64), "doc:x", "x", "doc:plain", TEXT[:-1])
    engine.do("MSET", "doc:streamed", streamed(TEXT), "other", stored[Codec.ZSTD], "doc:bent", MAGIC + b"no frame")
    for seed, name in enumerate(("present", "older", "missing"), 1):
        engine.do("SET", f"doc:{name}", pack(SHORT, STRING, Codec.ZSTD, 3, 64, json_dictionary(seed)))
    engine.do("HSET", "doc:h", "f", TEXT)
    engine.do("RPUSH", "doc:l", TEXT)


@pytest.mark.parametrize("engine_name", [*EXPECTED, NEWEST_REDIS])
def test_plain_sizes_are_judged(
    new_engine: Callable[..., Engine], engine_name: str, scanned: Scanned, tmp_path: Path
) -> None:
    engine = new_engine(engine_name)
    fill(engine)
    told, text = scanned(engine, "--touch", "--html", str(tmp_path / "scan.html"))
    cells = 'docs</code></th><td class="number">8</td><td class="number">1</td><td class="number">2</td>'
    assert cells in (html := (tmp_path / "scan.html").read_text())
    assert '<td class="number">1</td><td class="number">1</td></tr>' in html
    assert told["forms"] == [
        {
            "rule": "docs",
            "compressed": 8,
            "plain": 1,
            "small": 2,
            "unknown": 0,
            "hash": 1,
            "plain_bytes": 3 * len(TEXT) + 1900 + 3 * len(SHORT),
            "stored_bytes": sum(
                int(str(engine.do("STRLEN", key)))
                for key in (
                    *("doc:zstd", "doc:lz4", "acme:doc:1", "doc:small"),
                    *("doc:present", "doc:older", "doc:missing"),
                )
            ),
            "older_dictionary": 1,
            "missing_dictionary": 1,
        }
    ]
    assert as_json(from_json(told))["forms"] == told["forms"]
    found = {exemplar: row for row in told["findings"] for exemplar in row["exemplars"]}
    sure = {exemplar for exemplar, row in found.items() if row["sure"] and row["rule"] == "small"}
    assert sure == {"doc:zstd", "doc:lz4", "acme:doc:1 (doc:1 of tenant acme)", "doc:plain", "other"}
    assert not found["doc:streamed"]["sure"]
    beside = rf"has {len(TEXT)} bytes \(\d+ as stored, compressed\), {len(TEXT) - 2000} more than the limit of 2000"
    assert re.search(beside, text)
    assert "compress rule  compressed  larger, plain  small  not known  hashes" in text
    assert "bytes of compressed ones  older dictionary  missing one" in text
    if engine_name in ("redis-6.2", "redis-7.0"):
        calls = engine.calls("getrange")
        told, _ = scanned(engine)
        assert told["forms"][0]["unknown"] == 11, "without --touch nobody looks"
        assert engine.calls("getrange") == calls


def test_a_sample_counts_forms_too(new_engine: Callable[..., Engine], scanned: Scanned) -> None:
    engine = new_engine("valkey-9.1")
    stored = pack(TEXT, STRING, Codec.ZSTD, 3, 64)
    for each in range(0, 20_000, 100):
        pairs = [word for key in range(each, each + 100) for word in (f"doc:{key}", stored if key % 4 else "x")]
        engine.do("MSET", *pairs)
    told, text = scanned(engine, "--sample", "20%")
    (row,) = told["forms"]
    assert 13_500 < row["compressed"] < 16_500
    assert row["compressed"] + row["small"] == pytest.approx(20_000, abs=50)
    assert row["plain_bytes"] == pytest.approx(row["compressed"] * len(TEXT), rel=0.01)
    assert "about " in text.split("compress rule")[1].splitlines()[1]
