"""Logins that a password file decides: a changed file counts for all logins of later milliseconds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from proxy.net.logins.logins import RefusedLogins
from proxy.net.logins.password_file import FileLogins
from proxy.session.ports.login_port import Credentials
from tests.session.given import Client, route_with

OLD, NEW = (Credentials(b"default", password, alone=True) for password in (b"old", b"new"))


def test_a_changed_file_counts_from_the_next_millisecond_on(tmp_path: Path) -> None:
    file, outcomes = tmp_path / "passwords", Counter[str]()
    file.write_text("old")
    time = 1.0
    logins = FileLogins(file, RefusedLogins(outcomes, lambda: 0.0), outcomes, lambda: time)
    client = Client(route_with("rules: {}"))

    def accepts(*given: Credentials) -> list[bool]:
        replies = [logins.check(client, each) for each in given]
        return [reply is not None and reply.accepted for reply in replies]

    assert accepts(OLD, NEW) == [True, False]
    coming = tmp_path / "coming"
    coming.write_text("new")
    coming.rename(file)
    assert accepts(OLD, NEW) == [True, False], "the event loop has not looked at the clock"
    time = 1.001
    assert accepts(OLD, NEW) == [False, True]
