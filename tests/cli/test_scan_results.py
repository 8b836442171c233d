"""`keyrail scan`: the state folder, and what grew since an earlier scan."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.cli.growth_text import text
from proxy.server.stored.growth import growth
from proxy.server.stored.json_form import as_json
from proxy.server.stored.kept import KeptScans, read_scan
from proxy.server.stored.model import NodeFigures, Scan
from tests.cli.made_scan import DAY, NOW, made_scan
from tests.cli.test_report import HOSTILE
from tests.cli.test_scan import Scan as Verb
from tests.cli.test_scan import carts, verb
from tests.server.stored.fake_servers import Value
from tests.server.stored.served import served

__all__ = ["verb"]


def saved(folder: Path, name: str, scan: Scan) -> str:
    file = folder / name
    file.write_text(json.dumps(as_json(scan)))
    return str(file)


def made(day: int, used: float, *names: str) -> Scan:
    node = NodeFigures("redis://r1:6379", info={"used_memory": used, "maxmemory": 4 * 2.0**30})
    return replace(made_scan(*names or ("a",)), started=NOW + day * DAY, nodes=[node], finished=True, notes=())


def test_since_the_last_scan(verb: Verb, tmp_path: Path) -> None:
    state = ("--state-dir", str(tmp_path))
    with served(carts(20)) as one:
        status, shown, complaint = verb(one, *state, "--diff", "LAST")
        assert (status, complaint) == (0, f"keyrail: --diff: {tmp_path} has no scan of {one.url} yet\n")
        assert "since" not in shown
        (file,) = KeptScans(tmp_path).of(one.url)
        first = read_scan(file)
        file.unlink()
        KeptScans(tmp_path).write(replace(first, started=first.started - 7200))
        one.server.held[0] |= {b"cart:more%d" % each: Value() for each in range(5)}
        status, shown, _ = verb(one, *state, "--diff", "LAST")
        assert status == 0
        assert "(2 hours before): +5 keys, +320 bytes\n" in shown
        lines = [line.split() for line in shown.splitlines()]
        assert ["shop", "25", "+5", "1.6", "KiB", "+320", "bytes"] in lines
        told = json.loads(verb(one, *state, "--diff", "LAST", "--json")[1])
        assert (told["keys"], told["growth"]["apps"], told["growth"]["scans"]) == (26, [], 3)
        status, shown, _ = verb(one, "--diff", saved(tmp_path, "old.json", first))
        assert "before): +5 keys, +320 bytes\n" in shown


def test_between_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [saved(tmp_path, f"{day}.json", made(day, (1 + day / 2) * 2**30)) for day in (2, 0, 1)]
    assert main(["scan", "--diff", *files]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("since 2026-11-30 00:53:20 UTC (2 days before): +0 keys, +0 bytes\n")
    rates = "+512.0 MiB to +512.0 MiB"
    assert f"redis://r1:6379  maxmemory         2.0 GiB  4.0 GiB  {rates}  4 days\n" in shown
    assert "rates are of 3 scans" in shown
    assert main(["scan", "--json", "--diff", *files]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["forecasts"][0]["soonest"] == pytest.approx(4 * DAY)


def test_no_name_moves_the_cursor() -> None:
    old, new = made(0, 1, *HOSTILE), made(1, 2, *HOSTILE[3:])
    lines = text(growth(replace(old, upstream="\x1b[1m"), new)).split("\n")
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "the following arguments are required: --upstream, --policy"),
        (["--diff", "x"], "the following arguments are required: --upstream, --policy"),
        (
            ["--upstream", "redis://h", "--policy", "observe", "--diff", "LAST"],
            "argument --diff: LAST needs --state-dir",
        ),
    ],
)
def test_a_missing_option_is_named(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["scan", *arguments])
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


def test_a_file_that_is_no_scan_is_named_before_anything_is_walked(
    verb: Verb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text("{}")
    with served(carts()) as one:
        for name, reason in (("x", f"{tmp_path}/x is not the JSON of a scan"), ("y", "No such file or directory")):
            status, shown, complaint = verb(one, "--diff", str(tmp_path / name))
            assert (status, shown) == (2, "")
            assert reason in complaint
        assert one.connections == 0
    assert main(["scan", "--diff", str(tmp_path / "x"), str(tmp_path / "x")]) == 2
    assert "is not the JSON of a scan" in capsys.readouterr().err


def test_a_full_disk_is_an_error_after_the_result(verb: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with served(carts(20)) as one:
        status, shown, complaint = verb(one, "--state-dir", str(tmp_path))
        assert status == 1
        assert shown.startswith("21 keys")
        assert complaint.startswith(f"keyrail: cannot keep the result as {tmp_path}/scans/")
        assert complaint.endswith(": No space left on device\n")
        status, shown, complaint = verb(one, "--state-dir", str(tmp_path / "policy.yaml"))
        assert (status, shown) == (2, ""), "that is found before the scan"
        assert "policy.yaml: File exists" in complaint


def test_a_kept_scan_that_cannot_be_read_is_passed_over(verb: Verb, tmp_path: Path) -> None:
    with served(carts(20)) as one:
        assert verb(one, "--state-dir", str(tmp_path))[0] == 0
        (file,) = KeptScans(tmp_path).of(one.url)
        file.with_name("2999" + file.name[4:]).write_text("{}")
        assert "+0 keys" in verb(one, "--state-dir", str(tmp_path), "--diff", "LAST")[1]
