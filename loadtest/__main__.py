"""The command line of the load tests."""

import argparse
import shlex
import signal
import sys
from pathlib import Path

from loadtest import limits, published, targets, verbs
from loadtest.benchmark import RunError
from loadtest.placement import PLACEMENTS
from loadtest.processes import StartError

_STRICT = targets.REPOSITORY / "policies" / "strict.yaml"


def main() -> int:
    """Run a verb; return the exit status, 1 if something could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m loadtest", description="How fast Keyrail is.")
    choices = parser.add_subparsers(dest="verb", required=True)
    for name, about in (
        ("quick", "throughput, latency and CPU beside direct Redis and twemproxy"),
        ("memory", "idle connections and large values"),
        ("reload", "how long clients wait while a large policy comes into force"),
        ("failover", "how long clients pause while a primary dies: of a cluster, behind Sentinels, behind a name"),
        ("soak", "memory, open files and latency of each process over an hour"),
        ("rules", "what each rule of a policy costs"),
        ("traces", "what traffic statistics cost, on against off"),
        ("logins", "what the login of a short-lived client costs"),
        ("connects", "what a new client costs under each policy, and how workers share clients"),
        ("crowd", "how long commands take where thousands of clients are connected"),
        ("latency", "what a proxy adds to a command's time, and how long Keyrail takes to start"),
        ("cluster", "what a cluster costs, beside one Redis and Envoy"),
        ("local-cache", "reads of hot keys answered from memory, beside Redis itself"),
        ("staleness", "how late a write is seen by clients of a local cache"),
        ("replicas", "reads spread over two replicas, beside the same at the primary"),
        ("scan", "what a scan of stored keys costs Redis, and readers beside it"),
        ("tenants", "what the prefix of a tenant costs"),
        ("builds", "CPU per command of two builds of Keyrail"),
        ("limits", "CPU per command and per client, beside nutcracker, another build and other proxies"),
    ):
        verb = choices.add_parser(name, help=about)
        verb.add_argument("--keyrail", help="program to measure (default: the installed one, else this source tree)")
        verb.add_argument("--redis", default="redis-server", help="Redis to put behind it (default: %(default)s)")
        if name == "reload":
            verb.add_argument("--reloads", type=int, default=10, help="(default: %(default)s)")
        elif name == "staleness":
            verb.add_argument("--writes", type=int, default=2000, help="(default: %(default)s)")
        elif name == "failover":
            verb.add_argument("--failovers", type=int, default=5, help="of each kind (default: %(default)s)")
        elif name == "soak":
            verb.add_argument("--seconds", type=float, default=3600.0, help="(default: %(default)s)")
            verb.add_argument(
                "--every", type=float, default=30.0, help="seconds between samples (default: %(default)s)"
            )
            verb.add_argument("--reload-every", type=float, default=60.0, help="seconds (default: %(default)s)")
            verb.add_argument("--commands", type=int, default=2000, help="in a second (default: %(default)s)")
            verb.add_argument("--keys", type=int, default=1_000_000, help="(default: %(default)s)")
            verb.add_argument(
                "--traffic-memory", type=int, default=64, help="as of serve, in MB (default: %(default)s)"
            )
        elif name != "memory":
            verb.add_argument("--rounds", type=int, default=7, help="rounds (default: %(default)s)")
            verb.add_argument("--scale", type=float, default=1.0, help="length of each run (default: %(default)s)")
            verb.add_argument(
                "--processors",
                choices=list(PLACEMENTS),
                default="apart",
                help="the load on its own processor, or all where the kernel places it (default: %(default)s)",
            )
        if name == "rules":
            verb.add_argument("--policy", type=Path, default=_STRICT, help="(default: policies/strict.yaml)")
        if name == "builds":
            verb.add_argument("--before", required=True, help="program of the build to compare with")
        if name == "limits":
            verb.add_argument("--before", help="program of the build to compare with")
            verb.add_argument(
                "--peer", type=limits.peer, action="append", default=[], help="a proxy that runs: NAME=HOST:PORT,PID"
            )
        if name == "memory":
            verb.add_argument("--connections", type=int, default=5000, help="(default: %(default)s)")
        if name == "crowd":
            verb.add_argument("--connections", type=int, default=9500, help="(default: %(default)s)")
    choices.add_parser(
        "publish", help="write the figures of loadtest/results into docs/benchmarks.md and README's chart"
    )
    chosen = parser.parse_args()
    if chosen.verb == "publish":
        published.main()
        return 0
    # SIGTERM ends this program and all programs that it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    program = shlex.split(chosen.keyrail) if chosen.keyrail else targets.keyrail_program()
    try:
        verbs.measure(program, chosen)
    except (RunError, StartError) as error:
        print(f"loadtest: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
