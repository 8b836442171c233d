"""A disk that is full: clients notice nothing, lost lines are reported once a minute, and lines are whole afterwards.

The disk is a small tmpfs, which takes root to mount; elsewhere a pipe is as full.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proxy.server.line_writer import LineWriter
from tests.engines import Engine
from tests.keyrail_process import DIRECT
from tests.resp import eventually, pack
from tests.server.running import Running, serve

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay writes no files")

POLICY = """
keyrail: 1
alerts: {hot_key: {share: 50%, rate: 10/s}}
rules:
  no-keys: {refuse: [KEYS], mode: enforce}
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path) as found:
        yield found


@contextmanager
def small_disk(within: Path, size: str = "1m") -> Iterator[Path]:
    """A new one, in a folder."""
    folder = within / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as out:
        for size in (4096, 1):
            try:
                while True:
                    out.write(b"x" * size)
            except OSError:
                continue
    return ballast


def whole(file: Path) -> list[Any]:
    """The lines of a file that are JSON; no more than one may be cut."""
    lines = file.read_bytes().splitlines()
    found = []
    for line in filter(None, lines):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    assert len(lines) - len(found) <= 2, "a cut line, and the end of it"
    return found


def _switch_is(running: Running, on: bool) -> bool:
    return running.metric("keyrail_kill_switch") == on


def test_clients_go_on_and_all_is_written_again_when_there_is_room(
    disk: Path, tmp_path: Path, new_engine: Callable[..., Engine]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    files = {name: disk / name for name in ("incidents", "violations")}
    options = [text for name, file in {**files, "state-dir": disk}.items() for text in (f"--{name}", str(file))]
    with serve(
        "--upstream", new_engine().url, "--policy", str(tmp_path / "policy.yaml"), "--watch", "off", *options
    ) as running, running.wire() as wire:  # fmt: skip
        ballast = fill(disk)
        for _ in range(60):
            assert wire.ask("KEYS", "*").startswith(b"-DENIED")
        running.await_line(r"^keyrail: cannot write violations to \S+: No space left on device$")
        for switch in ("on", "off"):
            status, text = running.http("/policy/kill-switch", {"switch": switch, "for": "1m", "because": "a drill"})
            assert (status, "will not survive a restart: No space left" in text) == (500, True)
            assert json.loads(text)["survives_restart"] is False
            eventually(partial(_switch_is, running, switch == "on"))

        def hot() -> bool:
            wire.send(pack("GET", "hot:1") * 50)
            assert wire.frames(50) == [b"$-1\r\n"] * 50
            return "cannot keep incidents in" in running.stderr

        eventually(hot)
        (incident,) = running.json("/incidents")["incidents"]
        assert (incident["subject"], incident["ended"]) == ("hot:1", None)
        ballast.unlink()
        seen = len(whole(files["violations"]))
        eventually(lambda: wire.ask("KEYS", "*")[:1] == b"-" and len(whole(files["violations"])) > seen)
        order = {"incident": incident["id"], "app": "all", "rate": "100000/s", "because": incident["id"]}
        assert running.http("/remedies", order)[0] == 200
        eventually(lambda: any(each["event"]["what"] == "remedied" for each in whole(files["incidents"])))
        assert json.loads((disk / "state.json").read_text())["remedies"]["next"] == 2
        for text in ("cannot write violations", "cannot keep incidents"):
            assert running.stderr.count(text) == 1, "it is said once a minute"


def test_a_line_behind_one_that_was_cut_is_whole() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    lines = LineWriter()
    room = b""
    try:
        while True:
            room += b"y" * os.write(writer, b"y" * 65_537)
    except BlockingIOError:
        os.read(reader, 4096)
    with pytest.raises(BlockingIOError):
        lines.write(writer, b"a" * 8191 + b"\n")
    os.read(reader, len(room) - 4096)
    lines.write(writer, b"next\n")
    lines.write(writer, b"last\n")
    assert os.read(reader, 1 << 20) == b"a" * 4096 + b"\nnext\nlast\n"
    os.close(reader)
    os.close(writer)
