"""Lines of a log that are lost are reported at once, once a minute while that goes on, and in total at the end."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from proxy.net.config.settings import ViolationsSettings
from proxy.server.notices import LostLines
from proxy.server.violations import ViolationLog
from tests.conftest import seeds


@pytest.mark.parametrize("seed", seeds(20))
def test_no_loss_is_silent_for_longer_than_a_minute(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    random = Random(seed)
    now, said_at, lost, total, told = 0.0, float("-inf"), 0, 0, 0
    log = LostLines(lambda: now)
    for _ in range(300):
        now += random.choice([0.0, 1.0, 10.0, 61.0])
        if random.random() < 0.8:
            lines = random.randrange(1, 9)
            lost, total = lost + lines, total + lines
            log.lost("cannot write: No space left on device", lines)
            said = capsys.readouterr().err
            assert said.count("cannot write") == (now - said_at >= 60.0), "at once, and not in each second"
            if said:
                said_at = now
        else:
            log.written("the log")
            said = capsys.readouterr().err
            assert bool(said) == bool(lost)
            told += sum(map(int, re.findall(r"the log is written again; (\d+) lines are lost", said)))
            lost, said_at = 0, float("-inf")
    assert told + lost == total


def test_a_disk_that_is_full_for_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = [0.0]
    monkeypatch.setattr("proxy.server.violations.LostLines", lambda: LostLines(lambda: at[0]))
    folder = tmp_path / "there"
    folder.mkdir()
    file = folder / "violations"
    log = ViolationLog(ViolationsSettings(file))
    file.unlink()
    folder.rmdir()
    for at[0] in (0.0, 30.0, 61.0):
        log._write_to_file(file, [b"1\n", b"2\n"])
        log._write_to_file(file, [])  # once a second, or at SIGHUP: that is no line
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[1].endswith("(6 lines are lost so far)")
    folder.mkdir()
    log._write_to_file(file, [b"3\n"])
    assert capsys.readouterr().err.endswith(f"{file} is written again; 6 lines are lost\n")
    log.close()
