"""What a scan costs: the reader's latencies, and a short run of all."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from loadtest import scan, targets
from loadtest.connects import NIL
from loadtest.placement import PLACEMENTS
from loadtest.quick import Course
from loadtest.scan import Client


class Transport:
    def write(self, _: bytes) -> None:
        """Nobody answers by itself."""


def test_each_command_that_waits_counts_from_when_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    latencies, now = list[float](), [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    client = Client(latencies)
    client.connection_made(Transport())  # type: ignore[arg-type]  # all that it needs
    for now[0] in (1.0, 2.0, 3.0):
        client.send()
    now[0] = 5.0
    client.data_received(NIL + NIL[:2])
    now[0] = 6.0
    client.data_received(NIL[2:])
    assert (latencies, client.wrong) == ([4.0, 4.0], b"")
    client.data_received(b"-ERR no\r\n")
    assert (len(latencies), client.wrong) == (2, b"-ERR no\r\n")


@pytest.mark.long
def test_all_is_measured() -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed here")
    course = Course(2, 0.1, PLACEMENTS["together"](frozenset(os.sched_getaffinity(0))))
    _, found = scan.measured(targets.keyrail_program(), "redis-server", course, lambda _: None, keys=5_000)
    assert len(found) == 10
    assert [each.value for each in found[-2:]] == [0, 0]
    assert all(each.value > 0 for each in found if "per second" in each.what)
