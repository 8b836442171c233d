"""The state folder has one owner: a second start is an error, and a successor takes the folder over without a gap."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.server.hot_restart import Inheritance
from proxy.server.state_file import StateError
from proxy.server.state_folder import StateFolder
from tests.conftest import Fleet
from tests.resp import eventually
from tests.server.running import Running, refused, serve
from tests.server.test_hot_restart import taken_over


@pytest.fixture
def upstream(fleet: Fleet) -> str:
    return fleet.engine("valkey-9.1", "server").url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def running(upstream: str, folder: Path) -> Iterator[Running]:
    with serve("--upstream", upstream, "--state-dir", str(folder)) as running:
        yield running.ready()


def mode(file: Path) -> int:
    return file.stat().st_mode & 0o777


def owner(folder: Path) -> int:
    return int((folder / "lock").read_text())


def is_owned(folder: Path) -> bool:
    try:
        StateFolder.open(folder, None).close()
    except StateError:
        return True
    return False


def test_it_is_made_for_its_owner_alone(folder: Path) -> None:
    before = os.umask(0)
    opened = StateFolder.open(folder, None)
    os.umask(before)
    assert (mode(folder), mode(folder / "lock")) == (0o700, 0o600)
    assert (opened.state, opened.evidence) == (folder / "state.json", folder / "evidence.sqlite")
    assert owner(folder) == os.getpid()
    opened.close()
    folder.chmod(0o755)
    StateFolder.open(folder, None).close()
    assert mode(folder) == 0o755, "a folder that is there stays as it is: others may need it"


def test_it_has_one_owner_until_that_ends(folder: Path) -> None:
    opened = StateFolder.open(folder, None)
    with pytest.raises(StateError, match=f"another Keyrail owns the state folder {folder}: process {os.getpid()}; "):
        StateFolder.open(folder, None)
    opened.close()
    StateFolder.open(folder, None).close()


def test_whoever_inherits_the_lock_owns_it(folder: Path) -> None:
    first = StateFolder.open(folder, None)
    (folder / "lock").write_text("1")
    inheritance = Inheritance({"KEYRAIL_INHERITED": json.dumps({"lock": os.dup(first.descriptor)})})
    descriptor = inheritance.take_lock()
    assert descriptor is not None
    assert not os.get_inheritable(descriptor), "workers do not get it"
    second = StateFolder.open(folder, descriptor)
    assert owner(folder) == 1, "it signs when it serves"
    second.sign()
    assert owner(folder) == os.getpid()
    first.close()
    assert is_owned(folder)
    second.close()
    assert not is_owned(folder)


def test_the_lock_of_another_folder_is_let_go(folder: Path, tmp_path: Path) -> None:
    other = StateFolder.open(tmp_path / "other", None)
    opened = StateFolder.open(folder, other.descriptor)
    assert not is_owned(tmp_path / "other")
    assert is_owned(folder)
    opened.close()


def test_a_lock_that_is_not_needed_is_let_go(folder: Path) -> None:
    opened = StateFolder.open(folder, None)
    Inheritance({"KEYRAIL_INHERITED": json.dumps({"lock": opened.descriptor})}).close_rest()
    assert not is_owned(folder)


def test_what_cannot_be_a_state_folder_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for path, reason in ((tmp_path / "file", "File exists"), (tmp_path / "not" / "there", "No such file or directory")):
        with pytest.raises(StateError, match=f"cannot use the state folder {path}: {reason}"):
            StateFolder.open(path, None)
    folder.mkdir()
    os.mkfifo(folder / "lock")
    with pytest.raises(StateError, match="its file `lock` is no regular file"):
        StateFolder.open(folder, None)
    (folder / "lock").unlink()

    def refuse(descriptor: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StateError, match=f"cannot lock the state folder {folder}: Operation not supported"):
        StateFolder.open(folder, None)


def test_a_second_start_names_the_owner(running: Running, folder: Path, upstream: str) -> None:
    status, (line,) = refused(["--upstream", upstream, "--state-dir", str(folder)])
    assert (status, line) == (
        1,
        f"keyrail: another Keyrail owns the state folder {folder}: process {running.process.pid}; each needs its own",
    )


def test_a_killed_keyrail_does_not_keep_it(running: Running, folder: Path, upstream: str) -> None:
    """Its workers may live a moment longer: the lock is not theirs."""
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    assert not is_owned(folder)


def test_a_successor_takes_the_folder_over(running: Running, folder: Path) -> None:
    """At no moment anybody else can own it, while the predecessor drains and after it has ended."""
    assert owner(folder) == running.process.pid
    running.http("/policy/kill-switch", {"switch": "on", "for": "1h", "because": "a drill"})
    with taken_over(running) as successor:
        assert owner(folder) == successor
        assert is_owned(folder)
        assert json.loads((folder / "state.json").read_text())["kill_switch"]["because"] == "a drill"
        assert mode(folder / "state.json") == 0o600
    eventually(lambda: not is_owned(folder))


def test_a_successor_that_cannot_start_leaves_it(running: Running, folder: Path) -> None:
    (folder / "state.json").write_text("{}")
    with contextlib.suppress(ProcessLookupError):
        running.process.send_signal(signal.SIGUSR2)
    running.await_line(r"^keyrail: the successor has ended with status 1 before it was ready: going on$")
    assert owner(folder) == running.process.pid
    assert is_owned(folder)
