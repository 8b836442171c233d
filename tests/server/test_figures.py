"""The figures of several workers as one: sums, the counters of ended workers, and Prometheus metrics."""

from typing import Any

from proxy.server.figures import add_numbers, counters_of, merge_snapshots


def snapshot(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "route": "r",
        "ready": True,
        "reason": "",
        "silent_since": None,
        "oldest": 0.0,
        "engine": {"name": "valkey", "version": "9.1.0"},
        "clients": 2,
        "clients_total": 5,
        "upstreams": {"shared": 4, "private": 1, "idle": 0},
        "commands": {"pooled": 10, "pinned": 1, "local": 2},
        "verdicts": {"no-keys": {"enforce refused": 3}},
        "closed": {"client": 3},
        "events": {},
        "out_of_step": 0,
        "reconnects": 1,
        "features_off": [],
        "generation": 1,
    }
    return base | changes


def test_workers_add_up() -> None:
    second = snapshot(verdicts={"no-keys": {"audit refused": 1}, "names": {"enforce refused": 2}}, features_off=["x"])
    merged = merge_snapshots("r", [snapshot(), second], {})
    assert merged.ready
    assert merged.counters["commands"] == {"pooled": 20, "pinned": 2, "local": 4}
    assert merged.counters["verdicts"] == {
        "no-keys": {"enforce refused": 3, "audit refused": 1},
        "names": {"enforce refused": 2},
    }
    assert merged.gauges == {"clients": 4, "upstreams": {"shared": 8, "private": 2, "idle": 0}}
    assert merged.features_off == ["x"]


def test_counters_of_the_dead_stay_and_their_connections_do_not() -> None:
    departed: dict[str, Any] = {}
    add_numbers(departed, counters_of(snapshot()))
    add_numbers(departed, counters_of(snapshot()))
    merged = merge_snapshots("r", [snapshot()], departed)
    assert merged.counters["clients_total"] == 15
    assert merged.counters["closed"] == {"client": 9}
    assert merged.gauges["clients"] == 2
    # Merging reads what it is given and changes none of it.
    assert merge_snapshots("r", [snapshot()], departed).counters == merged.counters


def test_a_problem_of_a_route_that_is_ready_is_a_warning() -> None:
    merged = merge_snapshots("r", [snapshot(), snapshot(reason="a Sentinel does not answer")], {})
    assert (merged.ready, merged.reason, merged.warning) == (True, "", "a Sentinel does not answer")
    merged = merge_snapshots("r", [snapshot(ready=False, reason="down"), snapshot()], {})
    assert (merged.ready, merged.reason, merged.warning) == (False, "down", "")


def test_one_worker_that_is_not_ready_is_enough() -> None:
    merged = merge_snapshots("r", [snapshot(), snapshot(ready=False, reason="down", generation=2)], {})
    assert (merged.ready, merged.reason, merged.generation) == (False, "down", 1)


def test_the_longest_silence_is_told() -> None:
    assert merge_snapshots("r", [snapshot(), snapshot()], {}).silent_since is None
    silent = [snapshot(), snapshot(silent_since=30.0), snapshot(silent_since=20.0)]
    assert merge_snapshots("r", silent, {}).silent_since == 20.0


def test_the_longest_wait_is_told_and_backlogs_add_up() -> None:
    waiting = {"in_flight": 2, "queued": 1}
    merged = merge_snapshots("r", [snapshot(oldest=1.5, backlog=waiting), snapshot(oldest=4.0, backlog=waiting)], {})
    assert (merged.oldest, merged.gauges["backlog"]) == (4.0, {"in_flight": 4, "queued": 2})


def test_no_worker() -> None:
    merged = merge_snapshots("r", [], {})
    assert (merged.ready, merged.reason) == (False, "no worker has reported yet")
