"""The benchmark of a cluster: its targets are what their names say, and its goals are judged within a round."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import redis
import yaml

from loadtest import cluster, placement, targets, workloads
from loadtest.cluster import ENVOY, KEYRAIL_CLUSTER
from loadtest.quick import Course, Sample
from loadtest.report import cluster_markdown
from loadtest.targets import KEYRAIL_BENCH, Redis

NODES = [Redis(7000 + number, 0, "Redis") for number in range(3)]


def test_each_key_has_the_node_that_serves_its_slot(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed here")
    with cluster.primaries(tmp_path, "redis-server") as nodes:
        for number in range(50):
            key = b"%b%012d" % (workloads.GET_PREFIX.encode(), number)
            with redis.Redis(port=cluster.owner(nodes, key).port, protocol=2) as connection:
                assert connection.get(key) is None


def test_envoy_listens_on_its_port_and_has_the_nodes_as_seeds() -> None:
    config = yaml.safe_load(cluster.envoy_config(6379, NODES))["static_resources"]
    assert config["listeners"][0]["address"]["socket_address"] == {"address": "127.0.0.1", "port_value": 6379}
    seeds = config["clusters"][0]["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert [each["endpoint"]["address"]["socket_address"]["port_value"] for each in seeds] == [7000, 7001, 7002]


def test_goals_are_judged_within_a_round() -> None:
    def sample(workload: str, pipeline: int, target: str, number: int, cpu: float) -> Sample:
        return Sample(workload, pipeline, target, number, 100.0 / cpu, 0.1, 0.2, cpu, 1.0)

    samples = [sample("GET", 16, KEYRAIL_BENCH, 0, 1.0), sample("GET", 16, KEYRAIL_CLUSTER, 0, 1.2)]
    samples += [sample("GET", 16, ENVOY, 0, 4.0), sample("MGET", 1, KEYRAIL_CLUSTER, 0, 60.0)]
    samples += [sample("MGET", 1, ENVOY, 0, 100.0)]
    page = cluster_markdown(samples, {"machine": "test"})
    assert "| GET P=16: proxy CPU, of that before one Redis | ≤ 1.3 | 1.20 (1.20–1.20) | met |" in page
    assert "| GET P=16: proxy CPU, of Envoy's | ≤ 0.5 | 0.30 (0.30–0.30) | met |" in page
    assert "| MGET P=1: proxy CPU, of Envoy's | ≤ 0.4 | 0.60 (0.60–0.60) | MISSED |" in page


def test_a_short_run_measures_every_workload_on_every_target(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed here")
    monkeypatch.setattr(workloads, "KEYSPACE", 200)
    course = Course(1, 0.001, placement.together(frozenset(os.sched_getaffinity(0))))
    with cluster.all_targets("redis-server", targets.keyrail_program()) as (servers, ways):
        samples = list(cluster.rounds(servers, ways, course, lambda _: None))
    names = {way.name for way in ways}
    assert {KEYRAIL_BENCH, KEYRAIL_CLUSTER} <= names <= {KEYRAIL_BENCH, KEYRAIL_CLUSTER, ENVOY}
    measured = {(sample.workload, sample.pipeline, sample.target) for sample in samples}
    assert measured == {(each.name, each.pipeline, name) for each in cluster.WORKLOADS for name in names}
    assert all(sample.proxy_cpu > 0 for sample in samples)
