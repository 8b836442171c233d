"""Scans that are kept in a state folder: its folder `scans`, with one JSON file for each.

    20261129T101500.250Z-5e884898.json          when it began, and its upstream
    20261129T101500.250Z-5e884898-sample.json   the same of a sample

Whoever scans writes there; the lock of the state folder is that of the Keyrail that serves. Of each upstream the newest
scans stay, and of the months before the last scan of each; of all upstreams together, so many files. Samples count
apart: however many there are, the whole scan stays by which quotas judge.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from proxy.policy_yaml.regular_file import read_regular
from proxy.server.stored.json_form import as_json, from_json
from proxy.server.stored.model import Scan
from proxy.server.whole_file import replace_file

MOST_NEW, MOST_MONTHS, MOST_FILES = 30, 24, 200
_NAME = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{8}(?:-sample)?\.json")
_MONTH, _UPSTREAM, _KIND = slice(0, 6), slice(21, 29), slice(21, None)


class KeptScans:
    """Those of a state folder."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "scans"

    def write(self, scan: Scan) -> None:
        """Keep it, and remove what need not stay. Raises OSError."""
        for each in (self._folder.parent, self._folder):
            each.mkdir(mode=0o700, exist_ok=True)
        replace_file(self.file_of(scan), [json.dumps(as_json(scan)).encode()])
        files = self._files()
        for each in {*files} - {*_staying(files)}:
            each.unlink(missing_ok=True)

    def file_of(self, scan: Scan) -> Path:
        """Where it is kept."""
        began = datetime.fromtimestamp(scan.started, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
        kind = "" if scan.sample is None else "-sample"
        return self._folder / f"{began}Z-{_mark(scan.upstream)}{kind}.json"

    def of(self, upstream: str) -> list[Path]:
        """The files of an upstream, the newest first. Raises OSError."""
        return [each for each in self._files() if each.name[_UPSTREAM] == _mark(upstream)]

    def newest(self) -> Path | None:
        """The file of the newest scan of all. Raises OSError."""
        return next(iter(self._files()), None)

    def _files(self) -> list[Path]:
        try:
            return sorted((each for each in self._folder.iterdir() if _NAME.fullmatch(each.name)), reverse=True)
        except FileNotFoundError:
            return []


def read_scan(file: Path) -> Scan:
    """A scan that was written with ``--json`` or kept. Raises OSError, and ValueError if it is none."""
    try:
        return from_json(json.loads(read_regular(file)))
    except (ValueError, RecursionError):
        raise ValueError(f"{file} is not the JSON of a scan") from None


def _mark(upstream: str) -> str:
    return sha256(upstream.encode()).hexdigest()[:8]


def _staying(files: list[Path]) -> list[Path]:
    kinds: dict[str, list[Path]] = {}
    for each in files:
        kinds.setdefault(each.name[_KIND], []).append(each)
    staying = [each for its in kinds.values() for each in (*its[:MOST_NEW], *_of_months(its[MOST_NEW:]))]
    return sorted(staying, key=lambda each: each.name, reverse=True)[:MOST_FILES]


def _of_months(files: list[Path]) -> Iterator[Path]:
    last: dict[str, Path] = {}
    for each in files:
        last.setdefault(each.name[_MONTH], each)
    yield from list(last.values())[:MOST_MONTHS]
