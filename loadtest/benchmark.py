"""Runs redis-benchmark and parses its output."""

import csv
import shutil
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: commands per second; the median and 99th percentile of milliseconds to a reply of a whole pipeline."""

    rate: float
    p50: float
    p99: float


class RunError(Exception):
    """A run whose figures are invalid."""


def available() -> bool:
    return shutil.which("redis-benchmark") is not None


def run(port: int, argv: list[str], *, clients: int, pipeline: int, commands: int, keyspace: int) -> Measured:
    """Send ``commands`` times ``argv``, in which ``__rand_int__`` becomes a number below ``keyspace``.

    Raises RunError if the run fails or Redis answers with errors.
    """
    call = ["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-c", str(clients), "-P", str(pipeline)]
    call += ["-n", str(commands), "-r", str(keyspace), "--csv", *argv]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=300)
    rows = list(csv.reader(line for line in done.stdout.splitlines() if line.startswith('"')))
    if done.returncode != 0 or len(rows) < 2 or "from server" in done.stdout + done.stderr:
        raise RunError(f"redis-benchmark: {(done.stdout + done.stderr).strip()[-500:]}")
    row = dict(zip(rows[0], rows[-1], strict=True))
    return Measured(float(row["rps"]), float(row["p50_latency_ms"]), float(row["p99_latency_ms"]))
