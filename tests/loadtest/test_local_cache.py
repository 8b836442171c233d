"""The benchmark of the local cache: its load is what it says, and its goals are judged within a round."""

from __future__ import annotations

import os
import random
import shutil
import socket
import threading
from collections import Counter
from dataclasses import replace

import pytest

from loadtest import benchmark, local_cache, placement, responder, targets, workloads
from loadtest.local_cache import KEYRAIL_CACHE, NOTHING_HOT, RESPONDER, ZIPF
from loadtest.quick import Course, Sample
from loadtest.report import local_cache_markdown
from loadtest.rules import NO_RULE
from loadtest.targets import DIRECT, KEYRAIL_NONE


def test_a_key_is_used_by_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "KEYSPACE", 1000)
    used = Counter(local_cache.zipf_keys(random.Random(1), 50_000))
    (first, most), (second, next_most) = used.most_common(2)
    assert (first, second) == (b"bench:zipf:000000000000", b"bench:zipf:000000000001")
    assert most / next_most == pytest.approx(2**0.99, rel=0.1)


def test_the_responder_answers_each_whole_request() -> None:
    answering = responder.Responder(b"12345", b"+OK\r\n")
    assert answering.answered(7, b"123") == b""
    assert answering.answered(8, b"12345") == b"+OK\r\n"
    assert answering.answered(7, b"45123451") == b"+OK\r\n" * 2
    assert answering.answered(7, b"2345") == b"+OK\r\n"
    answering.left(7)
    assert answering.answered(7, b"12345") == b"+OK\r\n"


def test_the_responder_serves_many_clients() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    answering = responder.Responder(b"ping", b"pong")
    threading.Thread(target=responder.serve, args=(listener, answering), daemon=True).start()
    for _ in range(2):
        with (
            socket.create_connection(("127.0.0.1", port), 10.0) as one,
            socket.create_connection(("127.0.0.1", port), 10.0) as other,
        ):
            one.sendall(b"pingping")
            other.sendall(b"ping")
            assert one.makefile("rb").read(8) == b"pongpong"
            assert other.makefile("rb").read(4) == b"pong"


def test_goals_are_judged_within_a_round() -> None:
    def sample(workload: str, pipeline: int, target: str, rate: float, redis: float) -> Sample:
        return Sample(workload, pipeline, target, 0, rate, 0.1, 0.2, 2.0, redis)

    samples = [
        sample("hot GET, 64 B", 1, DIRECT, 100.0, 8.0),
        sample("hot GET, 64 B", 1, KEYRAIL_CACHE, 105.0, 0.05),
        sample("hot GET, 64 B", 1, RESPONDER, 108.0, 5.0),
        sample(ZIPF, 1, NO_RULE, 50.0, 8.0),
        sample(ZIPF, 1, KEYRAIL_CACHE, 50.0, 6.0),
        *(sample("GET", pipeline, NO_RULE, 50.0, 6.0) for pipeline in (1, 16, 64)),
        *(replace(sample("GET", each, NOTHING_HOT, 50.0, 6.0), proxy_cpu=2.0 + each / 100) for each in (1, 16, 64)),
    ]
    page = local_cache_markdown(samples, {"machine": "test"})
    assert (
        "| hot GET, 64 B, P=1: throughput, of Redis's own | ≥ 1.1 | 1.05 (1.05–1.05) | MISSED | 1.08 (1.08–1.08) |"
        in page
    )
    assert "| hot GET, 64 B, P=1: Redis's CPU per command, µs | ≤ 0.1 | 0.05 (0.05–0.05) | met |" in page
    assert "| GET P=16: proxy CPU, of that without the rule | stated | 1.08 (1.08–1.08) | | |" in page
    assert "| proxy CPU of the 3 cells, of that without the rule: median | ≤ 1.05 | 1.08 | MISSED | |" in page
    assert (
        f"| {ZIPF}, P=1: CPU of proxy and Redis, of that without the cache | ≤ 0.83 | 0.80 (0.80–0.80) | met "
        "| 0.70 (0.70–0.70) |" in page
    )


@pytest.mark.long
def test_a_short_run_measures_every_workload_on_every_target(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("redis-server") is None or not benchmark.available():
        pytest.skip("redis-server and redis-benchmark are not installed here")
    monkeypatch.setattr(workloads, "KEYSPACE", 200)
    monkeypatch.setattr(local_cache, "PROBES", 800)
    monkeypatch.setattr(local_cache, "WARM_SECONDS", 0.0)
    monkeypatch.setattr(local_cache, "FROM_MEMORY", -1.0)
    course = Course(1, 0.001, placement.together(frozenset(os.sched_getaffinity(0))))
    with local_cache.all_targets("redis-server", targets.keyrail_program()) as (redis, ways, responders):
        samples = list(local_cache.rounds(redis, ways, responders, course, lambda _: None))
    measured = {(sample.workload, sample.pipeline, sample.target) for sample in samples}
    assert measured == {
        (each.name, each.pipeline, target)
        for each in local_cache.WORKLOADS
        for target in (DIRECT, KEYRAIL_CACHE, *((NO_RULE,) if each.name == ZIPF else (KEYRAIL_NONE, RESPONDER)))
    } | {(each.name, each.pipeline, target) for each in local_cache.COLD for target in (NO_RULE, NOTHING_HOT)}
