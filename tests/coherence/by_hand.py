"""`python -m tests.coherence.by_hand OPERATIONS`: the hunts of the tests with as many operations as wanted.

It goes round by round, each with its own seed and keys, first through one Keyrail with two workers and directly, then
through two Keyrails. A round that finds something ends it, and tells the anomalies and the seed, by which it can be run
again.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.coherence.book import Book
from tests.coherence.clients import Swarm
from tests.coherence.history import Report, check
from tests.coherence.world import KINDS, hits, payloads, policy
from tests.coherence.writes import writings
from tests.conftest import kind_named
from tests.engines import Engine
from tests.keyrail_process import Keyrail

ROUND = 20_000


def main(words: list[str] | None = None) -> int:
    """Hunt, and tell what was found."""
    parser = argparse.ArgumentParser("python -m tests.coherence.by_hand", allow_abbrev=False)
    parser.add_argument("operations", type=int)
    parser.add_argument("--engine", default="valkey-9.1", help="such as redis-7.0 (default valkey-9.1)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (default 1)")
    parsed = parser.parse_args(words)
    began, done, seed, reads, late = time.monotonic(), 0, parsed.seed, 0, [0.0]
    with ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory()))
        engine = running.enter_context(closing(Engine(kind_named(parsed.engine))))
        keyrails = [
            running.enter_context(closing(Keyrail(engine.url, policy=policy(folder), workers=workers)))
            for workers in (2, 1, 1)
        ]
        while done < parsed.operations:
            most = min(ROUND, parsed.operations - done)
            report = _round(engine, keyrails[:1] if seed % 2 else keyrails[1:], most, seed)
            if report.anomalies:
                print(f"round with --seed {seed}:\n{report.lines()}")
                return 1
            done, seed, reads = done + most, seed + 1, reads + report.reads
            late += report.late
            took = time.monotonic() - began
            print(f"{done} operations, {reads} reads in {took:.0f} s, nothing found", file=sys.stderr)
        print(
            f"{done} operations, {reads} reads, {hits(keyrails):.0f} of them from memory: nothing found; "
            f"{len(late) - 1} reads were late, by {1000 * max(late):.1f} ms at most"
        )
    return 0


def _round(engine: Engine, keyrails: list[Keyrail], operations: int, seed: int) -> Report:
    book = Book(KINDS, prefix=f"cached:{seed}")
    addresses = [*(keyrail.address for keyrail in keyrails), engine.address]
    swarm = Swarm(addresses, book, writings(payloads(engine, book, operations // 100)), seed=seed)
    swarm.write_share = (0.03, 0.2)[seed // 2 % 2]
    asyncio.run(swarm.run(operations))
    return check(swarm.trails)


if __name__ == "__main__":
    sys.exit(main())
