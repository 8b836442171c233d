"""Incidents are reported and written once at each event, and survive a restart."""

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any, cast

import pytest

from proxy.commands.slots import slot_of
from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount
from proxy.policy.model import TRANSPARENT
from proxy.rules.rates import Rate
from proxy.server import incidents as module
from proxy.server.incidents import Incidents, IncidentsError, present
from proxy.server.remedies import Remedy
from proxy.server.workers import Workers
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.time_series import TimeSeries
from tests.server.running import STAMP


class OneRoute:
    """Workers whose traffic a test makes up."""

    policies = (TRANSPARENT,)

    def __init__(self) -> None:
        self.time_series = (TimeSeries(),)

    def redaction(self, _route: int) -> Redaction:
        return Redaction(Redact.NONE)

    def second(self, began: float, key: bytes, used: int) -> None:
        interval = IntervalStats(began, 1.0)
        interval.counter_snapshots = [CounterSnapshot(20_000, 0, (KeyCount(key, used, 0, used, 0),))]
        self.time_series[0].add(interval)


def incidents(workers: OneRoute, file: Path | None) -> Incidents:
    return Incidents(cast("Workers", workers), ["default"], file)


def live(workers: OneRoute, watching: Incidents, seconds: int, used: int, now: float, key: bytes = b"stock:7") -> float:
    for _ in range(seconds):
        workers.second(now, key, used)
        now += 1.0
        watching.look(now)
    watching.close()
    return now


def test_a_night_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workers, file = OneRoute(), tmp_path / "incidents"
    watching = incidents(workers, file)
    now = live(workers, watching, 20, 9_000, time.time())
    assert watching.open(0) == {"hot-key": 1}
    (begun,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert (begun["id"], begun["kind"], begun["subject"], begun["ended"]) == ("INC-1", "hot-key", "stock:7", None)
    assert begun["lines"][0].startswith("stock:7 HOT 9k/s = 45 % of 20k/s ±0 %")
    now = live(workers, watching, 90, 0, now)
    _, over = [json.loads(line) for line in file.read_text().splitlines()]
    assert over["began"] == begun["began"] < over["ended"]
    assert watching.begun == {("default", "hot-key"): 1}
    assert not watching.open(0)
    said = STAMP.sub("", capsys.readouterr().err).splitlines()
    assert len(said) == 2
    assert said[0].startswith("keyrail: incident INC-1 on route default: stock:7 HOT")
    assert re.match(r"keyrail: incident INC-1 on route default is over after 2\d s: stock:7 was HOT from", said[1])
    assert (over["peak"]["size"], over["before"], over["slot"]) == (9_000.0, None, slot_of(b"stock:7"))
    assert begun["cap"] == {"app": "all", "rate": "20000/s"}
    assert over["cap"] is None, "nothing is left to do"
    now = live(workers, watching, 20, 9_000, now, b"other:8")
    with file.open("a") as out:
        out.write('{"id": "INC-7", "half a')

    night = file.read_bytes()
    gone, _ = Incidents(cast("Workers", workers), ["renamed"], file).all()
    assert gone.ended is not None, "nobody looks for it any more"
    file.write_bytes(night)
    again = incidents(workers, file)
    assert [present(each)["id"] for each in again.all()] == ["INC-2", "INC-1"]
    assert present(again.all()[1]) == over
    live(workers, again, 20, 9_000, now, b"other:8")
    assert again.open(0) == {"hot-key": 1}, "it goes on as the one that it was"
    assert len(file.read_text().splitlines()) == 2, "what was half a line, or said before, is there no more"


def remedy(number: int, key: bytes, because: str, route: str = "default") -> Remedy:
    return Remedy(number, route, key, "checkout", Rate(1000, 1, 1000), 0.0, 9e9, because)


def test_each_change_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workers, file = OneRoute(), tmp_path / "incidents"
    standing: list[Remedy] = []
    watching = Incidents(cast("Workers", workers), ["default"], file, standing=lambda: standing)
    now = live(workers, watching, 20, 4_000, time.time())
    now = live(workers, watching, 20, 9_000, now)
    now = live(workers, watching, 20, 9_000, now, b"stock:8")
    standing += [remedy(4, b"stock:8", "too much"), remedy(5, b"stock:8", "x", "elsewhere"), remedy(6, b"k", "INC-11")]
    now = live(workers, watching, 3, 9_000, now, b"stock:8")
    standing.append(remedy(7, b"stock:7", "as INC-1 says"))
    now = live(workers, watching, 3, 9_000, now, b"stock:8")
    shutil.copy(file, copy := tmp_path / "copy")
    (known,) = incidents(workers, copy).all()
    assert known.remedies == {4, 7}, "a restart forgets neither"
    standing.remove(standing[0])
    now = live(workers, watching, 3, 9_000, now, b"stock:8")
    standing.clear()
    now = live(workers, watching, 3, 9_000, now, b"stock:8")
    live(workers, watching, 80, 0, now)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["event"]["what"], line["remedies"]) for line in lines] == [
        ("begun", []),
        ("grown", []),
        ("moved", []),
        ("remedied", [4]),
        ("remedied", [4, 7]),
        ("remedy-over", [7]),
        ("remedy-over", []),
        ("over", []),
    ]
    assert [line["subject"] for line in lines[1:3]] == ["stock:7", "stock:8"]
    times = [line["event"]["at"] for line in lines]
    assert times == sorted(times)
    said = [line.partition(" on route default")[2] for line in capsys.readouterr().err.splitlines()]
    beginnings = [
        ": stock:7 HOT",
        " has grown: stock:7 HOT",
        " has moved to another key: stock:8 ",
        " is under remedy-4: ",
        " is under remedy-7: ",
        " is no longer under remedy-4: ",
        " is no longer under remedy-7: ",
        " is over after ",
    ]
    assert [text[: len(beginning)] for text, beginning in zip(said, beginnings, strict=True)] == beginnings
    assert watching.begun == {("default", "hot-key"): 1}


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 3)
    monkeypatch.setattr(module, "LARGEST_FILE", 1000)
    workers, file = OneRoute(), tmp_path / "incidents"
    watching = incidents(workers, file)
    now = time.time()
    for turn in range(6):
        now = live(workers, watching, 12, 9_000, now, b"stock:" + b"xyzabc"[turn : turn + 1])
    live(workers, watching, 80, 0, now)
    assert [each.name for each in watching.all()] == ["INC-6", "INC-5", "INC-4"]
    assert file.stat().st_size < 2500
    watching.look(now + module.KEPT_SECONDS)
    watching.close()
    old = [json.loads(line) for line in file.read_text().splitlines()]
    for line in old:
        line["ended"] = "2020-01-01T00:00:00.000Z"
    file.write_text("".join(json.dumps(line) + "\n" for line in old))
    assert incidents(workers, file).all() == [], "a week is over"


def test_without_a_file_they_are_kept_in_memory() -> None:
    workers = OneRoute()
    watching = incidents(workers, None)
    live(workers, watching, 20, 9_000, time.time())
    assert watching.named("INC-1") is watching.all()[0]
    assert watching.named("INC-2") is None


def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(IncidentsError, match=r"cannot keep incidents in .*: No such file"):
        incidents(OneRoute(), tmp_path / "none" / "file")
    (tmp_path / "folder").mkdir()
    workers = OneRoute()
    watching = incidents(workers, tmp_path / "folder" / "file")
    (tmp_path / "folder" / "file").unlink()
    (tmp_path / "folder").rmdir()
    now = live(workers, watching, 20, 9_000, time.time())
    live(workers, watching, 80, 0, now)
    assert capsys.readouterr().err.count("cannot keep incidents") == 1, "it is said once"


def test_what_fails_is_said_once_and_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    watching: Any = incidents(OneRoute(), None)
    for _ in range(3):
        watching._complain("cannot look for incidents: KeyError: 1")
    assert STAMP.sub("", capsys.readouterr().err) == "keyrail: cannot look for incidents: KeyError: 1\n"
