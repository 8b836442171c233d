"""No file that settings or policies name stops an event loop: a FIFO in its place is an error, and a file system that
does not answer costs a moment, once."""

from __future__ import annotations

import ast
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from proxy.net.config.address import ListenerTls
from proxy.net.config.cluster_address import read_map
from proxy.net.config.strict_url import Secret
from proxy.net.connection.followed import PATIENCE_SECONDS, Followed
from proxy.net.connection.tls import TlsError, listener_context
from proxy.net.logins.password_file import FileLogins, PasswordFileError, read_passwords
from proxy.policy.load import load_policy
from proxy.policy_yaml.errors import PolicyError
from proxy.policy_yaml.regular_file import TooLargeError, read_regular
from proxy.server.admin.token import read_token
from proxy.server.config import ConfigError, load_settings
from proxy.server.state_file import StateError, StateFile
from proxy.session.ports.login_port import Credentials
from tests.program_source import trees
from tests.resp import eventually

READS = {"open", "read_text", "read_bytes", "fdopen", "mkstemp"}
ELSEWHERE = {
    "policy_yaml/regular_file.py": "the one place",
    "server/whole_file.py": "a temporary file of its own, from a thread",
    "server/state_folder.py": "a file for its lock, without waiting",
    "server/evidence/schema.py": "to make it; SQLite opens it",
    "server/incidents.py": "a temporary file of its own, and the file's end, from a thread",
    "server/violations.py": "to write, without waiting, from a thread",
    "server/process_figures.py": "/proc",
    "server/run_queue.py": "/proc",
    "server/admin/monitoring.py": "a file of the program",
    "server/admin/page/files.py": "files of the program",
    "commands/recorded.py": "a file of the program",
    "server/stored/changes/journal.py": "a file of its own, and an earlier one that a verb is to undo",
    "net/downstream/acceptor.py": "/dev/null",
}
"""Modules that open files in another way, and what they open. What runs before or beside a server (cli) is left out."""
OF_OTHER_KINDS = {
    "webbrowser",
    "StateFolder",
    "incidents",
    "marks",
    "spender",
    "_listeners",
    "_links",
    "_opener",
    "self",
}
"""What has a method `open` and is no file."""


def opens(tree: ast.AST) -> list[int]:
    """The lines that open a file."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id in READS:
                found.append(node.lineno)
            elif isinstance(function, ast.Attribute) and function.attr in READS:
                owner = function.value
                name = (
                    owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
                )
                if function.attr != "open" or name not in OF_OTHER_KINDS:
                    found.append(node.lineno)
    return found


@pytest.mark.source
def test_all_other_modules_read_files_in_the_one_way() -> None:
    opening = {name: opens(tree) for name, tree in trees().items() if name[:4] != "cli/"}
    assert {name: lines for name, lines in opening.items() if lines and name not in ELSEWHERE} == {}
    assert [name for name in ELSEWHERE if not opening[name]] == []
    assert opens(ast.parse("Path(x).read_text()\nself._path.open()\nopen(x)\nos.open(x)")) == [1, 2, 3, 4]


def within_seconds(act: Callable[[], object]) -> str:
    """The error of an act; fails if it waits."""
    told: list[str] = []

    def run() -> None:
        try:
            act()
        except (OSError, ValueError, ConfigError, PolicyError, StateError, TlsError) as error:
            told.append(str(getattr(error, "problems", error)))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10.0)
    assert told, "it waits for somebody to write into the FIFO, or takes it for a file"
    return told[0]


READERS: dict[str, Callable[[Path], object]] = {
    "passwords": read_passwords,
    "certificate": lambda file: listener_context(ListenerTls(file, file), print),
    "secret": lambda file: Secret(file=file).read(),
    "map": lambda file: read_map(str(file)),
    "policy": load_policy,
    "token": read_token,
    "state": StateFile,
    "config": lambda file: load_settings({"config": [str(file)]}, {}),
}


@pytest.mark.parametrize("name", READERS)
def test_a_fifo_is_no_file(name: str, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert "pipe" in within_seconds(partial(READERS[name], fifo))


def test_what_is_read_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 11)
    assert read_regular(file, 11) == b"x" * 11
    with pytest.raises(TooLargeError, match="more than 10 bytes"):
        read_regular(file, 10)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
    with pytest.raises(OSError, match="no regular file"):
        read_regular(Path("/dev/zero"))


def test_logins_go_on_when_their_file_becomes_a_fifo(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "passwords"
    file.write_text("app secret\n")
    turns = iter(range(100))
    logins = FileLogins(file, cast("Any", None), Counter(), lambda: float(next(turns)))

    def login() -> bool:
        reply = logins.check(cast("Any", None), Credentials(b"app", b"secret"))
        return reply is not None and reply.frame == b"+OK\r\n"

    assert login()
    file.unlink()
    os.mkfifo(file)
    told: list[bool] = []
    thread = threading.Thread(target=lambda: told.extend((login(), login())), daemon=True)
    thread.start()
    thread.join(10.0)
    assert told == [True, True]
    assert caplog.text.count("it is a pipe, socket or device") == 1
    file.unlink()
    file.write_text("app other\n")


def test_a_file_system_that_does_not_answer_costs_a_moment_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    answers, reported = threading.Event(), list[str]()
    answers.set()

    def build() -> str:
        answers.wait()
        text = file.read_text()
        if text == "bad":
            raise PasswordFileError("bad")
        return text

    followed = Followed(build, (file,), reported.append, PasswordFileError)
    assert followed.current() == "one"
    answers.clear()
    file.write_text("another")
    begun = time.monotonic()
    assert [followed.current() for _ in range(1000)] == ["one"] * 1000
    assert time.monotonic() - begun < 20 * PATIENCE_SECONDS
    answers.set()
    eventually(lambda: followed.current() == "another")
    file.write_text("bad")
    assert [followed.current() for _ in range(3)] == ["another"] * 3
    assert reported == ["bad; what was read before stays in use"]
