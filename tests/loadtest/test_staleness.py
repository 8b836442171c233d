"""How late a write is seen: by the reader that still gets an old number last."""

from __future__ import annotations

import shutil

import pytest

from loadtest import staleness, targets
from loadtest.benchmark import RunError
from loadtest.staleness import Watch


def test_the_last_old_number_counts() -> None:
    watch = Watch(2)
    watch.write(1)
    watch.acknowledged = 10.0
    watch.read(0, 0, 10.5)
    watch.read(0, 1, 11.0)
    assert not watch.seen_by_all()
    watch.read(1, 0, 12.0)
    watch.read(1, 1, 12.5)
    assert watch.seen_by_all()
    assert watch.late() == 2.0
    watch.write(2)
    watch.read(0, 1, 13.0)
    watch.acknowledged = 14.0
    watch.read(0, 2, 15.0)
    watch.read(1, 2, 15.0)
    assert watch.late() == 0.0


def test_no_reader_goes_back() -> None:
    watch = Watch(1)
    watch.write(2)
    watch.read(0, 2, 1.0)
    with pytest.raises(RunError, match="from 2 to 1"):
        watch.read(0, 1, 2.0)


@pytest.mark.long
def test_every_way_is_measured() -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed here")
    _, found = staleness.measured(targets.keyrail_program(), "redis-server", 20, lambda _: None)
    assert len(found) == 6
    assert all(each.unit == "ms" and each.value >= 0 for each in found)
