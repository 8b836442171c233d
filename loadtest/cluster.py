"""``cluster``: what a cluster of three primaries costs, beside one Redis, and beside Envoy's redis_proxy.

Keyrail runs before the cluster and before a plain Redis, Envoy before the cluster. GET and SET have random keys, so a
pipeline has keys of all nodes, and so has MGET.
"""

import contextlib
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import redis as redis_py
import yaml
from redis.crc import key_slot

from loadtest import generator, targets, workloads
from loadtest.processes import StartError, free_port, running
from loadtest.quick import Course, Sample, Workload, check, measure, told
from loadtest.targets import KEYRAIL_BENCH, Redis, Target

KEYRAIL_CLUSTER = "keyrail cluster"
ENVOY = "envoy cluster"
WORKLOADS = [
    Workload("GET", 1, 60_000),
    Workload("SET", 1, 60_000),
    Workload("GET", 16, 400_000),
    Workload("SET", 16, 400_000),
    Workload("MGET", 1, 30_000),
]

Servers = Mapping[str, Sequence[Redis]]
"""The servers behind each target."""

_PRIMARIES = 3
_SLOTS = 16_384
_START_SECONDS = 30.0
_AT_ONCE = 1000
_SEED = 14


@contextlib.contextmanager
def all_targets(redis_program: str, keyrail_program: list[str]) -> Iterator[tuple[Servers, list[Target]]]:
    """Every target and the servers behind each, preloaded, ended with the block. Without ``envoy``, there is none."""
    with contextlib.ExitStack() as stack:
        folder, redis = stack.enter_context(targets.preloaded(redis_program))
        nodes = stack.enter_context(primaries(folder, redis_program))
        preload(nodes)
        policy = str(targets.BENCH_POLICY)
        upstream = f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in nodes)}"
        found = [
            stack.enter_context(targets.keyrail(KEYRAIL_BENCH, keyrail_program, redis, policy)),
            stack.enter_context(targets.keyrail(KEYRAIL_CLUSTER, keyrail_program, upstream, policy)),
            stack.enter_context(envoy(folder, nodes)),
        ]
        servers = {KEYRAIL_BENCH: [redis], KEYRAIL_CLUSTER: nodes, ENVOY: nodes}
        yield servers, [target for target in found if target is not None]


@contextlib.contextmanager
def primaries(folder: Path, program: str) -> Iterator[list[Redis]]:
    """A cluster of three primaries that share the slots evenly."""
    with contextlib.ExitStack() as stack:
        nodes: list[Redis] = []
        first_bus = free_port()
        for number in range(_PRIMARIES):
            own = folder / f"node{number + 1}"
            own.mkdir()
            bus = free_port() if nodes else first_bus
            options = ("--cluster-enabled", "yes", "--cluster-port", str(bus))
            node = stack.enter_context(targets.redis_server(own, program, *options))
            with redis_py.Redis(port=node.port, protocol=2) as connection:
                first, behind = number * _SLOTS // _PRIMARIES, (number + 1) * _SLOTS // _PRIMARIES
                connection.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
                connection.execute_command("CLUSTER ADDSLOTSRANGE", first, behind - 1)
                if nodes:
                    connection.execute_command("CLUSTER MEET", "127.0.0.1", nodes[0].port, first_bus)
            nodes.append(node)
        _settle(nodes)
        yield nodes


def _settle(nodes: Sequence[Redis]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not all(map(_knows_all, nodes)):
        if time.monotonic() > deadline:
            raise StartError(f"the nodes of a cluster did not find one another within {_START_SECONDS:g} s")
        time.sleep(0.02)


def _knows_all(node: Redis) -> bool:
    with redis_py.Redis(port=node.port, protocol=2) as connection:
        said = connection.execute_command("CLUSTER INFO")
    return (said["cluster_state"], said["cluster_known_nodes"]) == ("ok", str(_PRIMARIES))


def owner(nodes: Sequence[Redis], key: bytes) -> Redis:
    """The node of a key."""
    return nodes[(key_slot(key) * _PRIMARIES + _PRIMARIES - 1) // _SLOTS]


def preload(nodes: Sequence[Redis]) -> None:
    """Write the keys of GET and SET to the nodes themselves."""
    by_node: dict[int, list[bytes]] = {node.port: [] for node in nodes}
    for prefix in (workloads.GET_PREFIX, workloads.SET_PREFIX):
        for number in range(workloads.KEYSPACE):
            key = b"%b%012d" % (prefix.encode(), number)
            by_node[owner(nodes, key).port].append(key)
    for port, keys in by_node.items():
        with redis_py.Redis(port=port, protocol=2) as connection:
            for first in range(0, len(keys), _AT_ONCE):
                pipeline = connection.pipeline(transaction=False)
                for key in keys[first : first + _AT_ONCE]:
                    pipeline.set(key, workloads.VALUE)
                pipeline.execute()


def envoy_config(port: int, nodes: Sequence[Redis]) -> str:
    """Envoy's configuration: a listener with redis_proxy, and the nodes as seeds of a cluster."""
    kinds = "type.googleapis.com/envoy.extensions"

    def address(port: int) -> dict[str, object]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": port}}

    redis_proxy = {
        "@type": f"{kinds}.filters.network.redis_proxy.v3.RedisProxy",
        "stat_prefix": "bench",
        "settings": {"op_timeout": "10s", "enable_redirection": True},
        "prefix_routes": {"catch_all_route": {"cluster": "bench"}},
    }
    chain = {"filters": [{"name": "envoy.filters.network.redis_proxy", "typed_config": redis_proxy}]}
    seeds = [{"endpoint": {"address": address(node.port)}} for node in nodes]
    cluster = {
        "name": "bench",
        "connect_timeout": "2s",
        "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": {
            "name": "envoy.clusters.redis",
            "typed_config": {"@type": f"{kinds}.clusters.redis.v3.RedisClusterConfig"},
        },
        "load_assignment": {"cluster_name": "bench", "endpoints": [{"lb_endpoints": seeds}]},
    }
    listener = {"name": "bench", "address": address(port), "filter_chains": [chain]}
    return yaml.safe_dump({"static_resources": {"listeners": [listener], "clusters": [cluster]}})


@contextlib.contextmanager
def envoy(folder: Path, nodes: Sequence[Redis]) -> Iterator[Target | None]:
    """Envoy with one worker thread; None if it is not installed."""
    beside = Path(sys.executable).parent / "envoy"
    program = str(beside) if beside.exists() else shutil.which("envoy")
    if program is None:
        yield None
        return
    port = free_port()
    config = folder / "envoy.yaml"
    config.write_text(envoy_config(port, nodes), encoding="utf-8")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = next((part for part in said.split("/") if part.count(".") == 2), "")
    argv = [program, "-c", str(config), "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error"]
    with running(argv) as proxy:
        proxy.wait_for_port(port)
        _wait_for_answer(port)
        yield Target(ENVOY, port, proxy.pid, f"Envoy {version}")


def _wait_for_answer(port: int) -> None:
    # It listens before it knows the nodes.
    deadline = time.monotonic() + _START_SECONDS
    key = f"{workloads.GET_PREFIX}{7:012d}"
    with redis_py.Redis(port=port, protocol=2) as connection:
        while True:
            try:
                connection.get(key)
            except redis_py.ResponseError as error:
                if time.monotonic() > deadline:
                    raise StartError(f"envoy answers {error}") from error
                time.sleep(0.05)
            else:
                return


def check_all(servers: Servers, ways: Sequence[Target]) -> None:
    """Check that each target works as its name says; raises RunError if not."""
    key = b"%bcheck" % workloads.SET_PREFIX.encode()
    for target in ways:
        behind = servers[target.name]
        check(behind[0] if len(behind) == 1 else owner(behind, key), target)
        generator.rehearse(target.port, workloads.mget_probes(random.Random(_SEED), 1), 1)


def rounds(servers: Servers, ways: Sequence[Target], course: Course, say: Callable[[str], None]) -> Iterator[Sample]:
    """In each round every workload runs on every target, in an order that rotates."""
    check_all(servers, ways)
    for number in range(course.rounds):
        for workload in WORKLOADS:
            for target in targets.rotated(ways, number):
                sample = measure(servers[target.name], target, workload, number, course)
                say(told(sample, course.rounds))
                yield sample
    check_all(servers, ways)
