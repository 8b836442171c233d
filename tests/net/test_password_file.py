"""Logins that a password file decides: a changed file counts for all logins that are sent after the change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from proxy.net.logins import RefusedLogins
from proxy.net.password_file import FileLogins
from proxy.session.ports import Credentials
from tests.session.given import Client, route_with

OLD, NEW = (Credentials(b"default", password, alone=True) for password in (b"old", b"new"))


def test_a_changed_file_counts_from_the_next_turn_of_the_event_loop_on(tmp_path: Path) -> None:
    file, outcomes = tmp_path / "passwords", Counter[str]()
    file.write_text("old")
    ends: list[Callable[[], None]] = []
    logins = FileLogins(file, RefusedLogins(outcomes, lambda: 0.0), outcomes, ends.append)
    client = Client(route_with("rules: {}"))

    def accepts(*given: Credentials) -> list[bool]:
        replies = [logins.check(client, each) for each in given]
        return [reply is not None and reply.accepted for reply in replies]

    assert accepts(OLD, NEW) == [True, False]
    coming = tmp_path / "coming"
    coming.write_text("new")
    coming.rename(file)
    assert accepts(OLD, NEW) == [True, False], "these were sent before the change"
    (end,) = ends
    end()
    assert accepts(OLD, NEW) == [False, True]
    assert len(ends) == 2
