"""``failover``: how long clients pause while a primary of a cluster dies.

Three primaries with a replica each, and one client for each of them that sends GETs of its keys, one at a time: through
Keyrail, and directly to the node. Then one primary is killed. A pause is the time between two replies that are no
errors; the longest counts. Once with ``cluster-require-full-coverage no``, where nodes that live serve their slots all
the time, and once with ``yes``, where they answer CLUSTERDOWN until a replica has been promoted: then clients of
Keyrail may pause as long as those that talk to the nodes directly.
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from redis.crc import key_slot

from loadtest import targets
from loadtest.memory import Measured
from loadtest.pause import PausingClient, ask, free_ports, order, wait
from loadtest.processes import Program, running

PRIMARIES = 3
NODE_TIMEOUT = 2000
_GOAL_OTHERS = 50.0
_GOAL_LONGER = 100.0
"""Milliseconds by which a pause may be longer than one of clients that talk to the nodes directly: while nodes answer
CLUSTERDOWN, Keyrail asks them again twenty times a second, and these clients a thousand times."""
_GOAL_PROMOTED = 1000.0
_QUIET_SECONDS = 2.0


def measured(
    program: list[str], redis_program: str, rounds: int, say: Callable[[str], None]
) -> tuple[str, list[Measured]]:
    """Keyrail's form (compiled or plain), and all figures."""
    form = ""
    found = []
    for coverage in ("no", "yes"):
        figures = []
        for number in range(rounds):
            say(f"cluster-require-full-coverage {coverage}: failover {number + 1} of {rounds}")
            with _cluster(redis_program, coverage) as nodes, _keyrail(program, nodes) as (port, said):
                form = said
                figures.append(_one_failover(nodes, port))
        others, direct, followed, quiet = zip(*figures, strict=True)
        where = f"cluster-require-full-coverage {coverage}"
        limit = _GOAL_OTHERS if coverage == "no" else None
        longer = max(through - beside for through, beside in zip(others, direct, strict=True))
        found += [
            Measured(f"{where}: longest pause of clients of the other nodes", max(others), "ms", limit),
            Measured(f"{where}: its median", statistics.median(others), "ms", None),
            Measured(f"{where}: longest pause of clients that talk to those nodes directly", max(direct), "ms", None),
            Measured(f"{where}: pauses longer than direct ones of the same failover, by", longer, "ms", _GOAL_LONGER),
            Measured(f"{where}: longest pause before the failover", max(quiet), "ms", None),
            Measured(f"{where}: from the promotion to the first reply, longest", max(followed), "ms", _GOAL_PROMOTED),
            Measured(f"{where}: its median", statistics.median(followed), "ms", None),
        ]
    return form, found


def _one_failover(nodes: list[tuple[int, Program]], port: int) -> tuple[float, float, float, float]:
    # Pauses of the other nodes' clients through Keyrail and directly; how late Keyrail follows; the pause before.
    keys = [_key_of(number) for number in range(PRIMARIES)]
    through = [PausingClient(port, "GET", key) for key in keys]
    beside = [PausingClient(nodes[number][0], "GET", keys[number]) for number in range(1, PRIMARIES)]
    try:
        time.sleep(_QUIET_SECONDS)
        begun = time.monotonic()
        quiet = max(client.longest(0.0) for client in through)
        nodes[0][1].kill()
        replica = nodes[PRIMARIES][0]
        while not ask(replica, "ROLE").startswith(b"*3\r\n$6\r\nmaster"):
            wait(begun)
        promoted = time.monotonic()
        while (served := through[0].first(promoted)) is None or beside[0].first(promoted) is None:
            wait(begun)
        time.sleep(_QUIET_SECONDS)
    finally:
        for client in (*through, *beside):
            client.stop()
    others = max(client.longest(begun) for client in through[1:])
    return others, max(client.longest(begun) for client in beside), 1000 * (served - promoted), quiet


def _key_of(number: int) -> bytes:
    # A key of the slots of this primary, as _cluster shares them out.
    shares = [slot * PRIMARIES // 16384 for slot in range(16384)]
    return next(key for key in (b"key:%d" % n for n in range(1000)) if shares[key_slot(key)] == number)


@contextlib.contextmanager
def _cluster(program: str, coverage: str) -> Iterator[list[tuple[int, Program]]]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        nodes = []
        for port in free_ports(2 * PRIMARIES):
            own = folder / str(port)
            own.mkdir()
            argv = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(own)]
            argv += ["--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT)]
            argv += ["--cluster-require-full-coverage", coverage, "--repl-diskless-sync-delay", "0"]
            nodes.append((port, stack.enter_context(running(argv))))
        begun = time.monotonic()
        for port, server in nodes:
            server.wait_for_port(port)
        for number, (port, _) in enumerate(nodes):
            order(port, f"CLUSTER SET-CONFIG-EPOCH {number + 1}")
            if number < PRIMARIES:
                first, last = -(-number * 16384 // PRIMARIES), -(-(number + 1) * 16384 // PRIMARIES) - 1
                order(port, f"CLUSTER ADDSLOTSRANGE {first} {last}")
            order(port, f"CLUSTER MEET 127.0.0.1 {nodes[0][0]}")
        while any(b"known_nodes:6" not in ask(port, "CLUSTER INFO") for port, _ in nodes):
            wait(begun)
        for number, (port, _) in enumerate(nodes[PRIMARIES:]):
            order(port, f"CLUSTER REPLICATE {ask(nodes[number][0], 'CLUSTER MYID').split()[1].decode()}")
        while any(b"master_link_status:up" not in ask(port, "INFO replication") for port, _ in nodes[PRIMARIES:]):
            wait(begun)
        while any(b"cluster_state:ok" not in ask(port, "CLUSTER INFO") for port, _ in nodes):
            wait(begun)
        yield nodes


@contextlib.contextmanager
def _keyrail(program: list[str], nodes: list[tuple[int, Program]]) -> Iterator[tuple[int, str]]:
    (port,) = free_ports(1)
    seeds = ",".join(f"127.0.0.1:{each}" for each, _ in nodes[:PRIMARIES])
    argv = [*program, "serve", "--listen", f"redis://127.0.0.1:{port}", "--upstream", f"redis+cluster://{seeds}"]
    argv += ["--policy", str(targets.BENCH_POLICY), "--admin", "off", "--workers", "1"]
    with running(argv, cwd=targets.REPOSITORY) as keyrail:
        ready = keyrail.wait_for_line("ready on")
        begun = time.monotonic()
        while any(ask(port, f"GET {_key_of(number).decode()}")[:1] != b"$" for number in range(PRIMARIES)):
            wait(begun)
        yield port, "compiled" if "compiled" in ready else "plain"
