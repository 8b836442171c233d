"""Scans that are kept in the state folder: whole, private, bounded, and read as they were."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from proxy.server.stored.json_form import as_json, from_json
from proxy.server.stored.kept import MOST_FILES, MOST_MONTHS, MOST_NEW, KeptScans, read_scan
from proxy.server.stored.model import Sample
from tests.cli.made_scan import DAY, NOW, made_scan

SCAN = replace(made_scan("a", "b", "c"), finished=True)


def test_a_scan_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = KeptScans(tmp_path / "state")
    kept.write(SCAN)
    (file,) = kept.of(SCAN.upstream)
    assert kept.newest() == file
    assert read_scan(file) == SCAN == from_json(json.loads(json.dumps(as_json(SCAN))))
    modes = {each.stat().st_mode & 0o777 for each in (tmp_path / "state", file.parent)}
    assert (modes, file.stat().st_mode & 0o777) == ({0o700}, 0o600)


def test_the_newest_and_one_of_each_month_stay(tmp_path: Path) -> None:
    kept = KeptScans(tmp_path)
    (tmp_path / "scans").mkdir()
    other = tmp_path / "scans" / "notes.txt"
    other.write_text("not Keyrail's")
    days = [NOW - each * DAY for each in range(1000)]
    for each in days:  # the names decide, so that only one is written in full
        kept.file_of(replace(SCAN, started=each)).touch()
    kept.write(replace(SCAN, started=NOW + DAY))
    dates = [each.name[:8] for each in kept.of(SCAN.upstream)]
    newest = [datetime.fromtimestamp(each, UTC).strftime("%Y%m%d") for each in [NOW + DAY, *days[: MOST_NEW - 1]]]
    assert dates[:MOST_NEW] == newest
    months = [each[:6] for each in dates[MOST_NEW:]]
    assert len(months) == MOST_MONTHS
    assert months == sorted(set(months), reverse=True)
    assert all(each[6:] >= "28" for each in dates[MOST_NEW + 1 :]), "the last of its month"
    assert other.exists()


def test_no_number_of_samples_removes_a_whole_scan(tmp_path: Path) -> None:
    kept = KeptScans(tmp_path)
    kept.write(SCAN)
    sample = Sample(0.01, 100, 10_000)
    for number in range(1, MOST_NEW + 20):
        kept.file_of(replace(SCAN, started=NOW + number, sample=sample)).touch()
    kept.write(replace(SCAN, started=NOW + 1000, sample=sample))
    assert kept.file_of(SCAN) in kept.of(SCAN.upstream)
    assert len(kept.of(SCAN.upstream)) == 1 + MOST_NEW + 1, "of the samples before these, the last one of the month"


def test_many_upstreams_are_bounded_together(tmp_path: Path) -> None:
    kept = KeptScans(tmp_path)
    (tmp_path / "scans").mkdir()
    for number in range(MOST_FILES + 50):
        kept.file_of(replace(SCAN, upstream=f"redis://r{number}:1", started=NOW - number)).touch()
    kept.write(replace(SCAN, started=NOW + 1))
    assert len([*(tmp_path / "scans").iterdir()]) == MOST_FILES
    assert [each.name for each in kept.of("redis://r0:1")] == [
        kept.file_of(replace(SCAN, upstream="redis://r0:1", started=NOW)).name
    ]
    assert kept.of(f"redis://r{MOST_FILES + 1}:1") == []


def test_a_file_is_never_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = KeptScans(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        kept.write(SCAN)
    assert [*(tmp_path / "scans").iterdir()] == []


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        {"version": 2},
        {"started": "yesterday"},
        {"nodes": [7]},
        {"patterns": [{"pattern": "p", "app": "a", "keys": "7"}]},
        {"findings": [{}]},
        {"ttl_bounds": [1]},
        {"nodes": [{"name": "n", "info": {"used_memory": "x"}}]},
    ],
    ids=lambda broken: str(broken)[:30],
)
def test_what_is_no_scan_is_named(broken: str | dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(broken if isinstance(broken, str) else json.dumps(as_json(SCAN) | broken))
    with pytest.raises(ValueError, match=r"x\.json is not the JSON of a scan"):
        read_scan(file)
