"""A feature that is off is told when that becomes known, also long after the start, and once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from proxy.net.config.address import parse_upstream
from proxy.net.config.settings import PolicySource, RouteSettings
from proxy.server.announcements import Announcements
from proxy.server.figures import RouteFigures, merge_snapshots
from tests.server.test_figures import snapshot


def workers_of(figures: RouteFigures) -> Any:
    return SimpleNamespace(figures=lambda: [figures], complete=True, living=1, generation=1)


def test_features_that_turn_out_to_be_off_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    def told(*off: str, ready: bool = True) -> list[str]:
        figures = merge_snapshots("r", [snapshot(features_off=list(off), ready=ready, reason="no answer")], {})
        announcements.changes(workers_of(figures))
        return [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()]

    announcements = Announcements()
    route = RouteSettings("r", (), parse_upstream("redis://x:1"), PolicySource())
    announcements.ready([(route, ())], workers_of(merge_snapshots("r", [snapshot()], {})), None, "limits")
    capsys.readouterr()
    assert told() == []
    assert told("no cache") == ["no cache"]
    assert told("no cache") == []
    assert told("no cache", "no TTLs") == ["no TTLs"]
    assert told("no cache", ready=False) == ["no answer"]
    assert told("no cache") == ["the upstream answers (valkey 9.1.0)", "no cache"]
    assert told() == []
    assert told("no cache") == ["no cache"]
