"""One client's names, of any length and however similar to the policy's patterns, delay no other client."""

from pathlib import Path
from time import monotonic

import pytest

from tests.conftest import Fleet
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
apps:
  batch: {match: {client_name: "*-a-*-b-*"}}
  loader: {match: {client_name: "a*-a-*-a-*-b"}}
rules:
  hot: {limits: {keys: "a:*:b:*:c", rate: 100/s}}
  warm: {limits: {keys: "*a*a*a*b", rate: 100/s}}
  short: {lifetime: {default: 5m, keys: ["a:*:b:*:c", "*a*b*a*c"]}}
  no-append: {refuse: [APPEND]}
exceptions:
  - {rule: no-append, keys: "a:*:b:*:c*d", because: it is tried here}
"""
STALL = 1.0
"""Seconds, for the best of a few tries: a command like these takes some milliseconds, and a busy machine may take long
once."""
TRIES = 3
LONG = 1_000_000
NAMES = [(unit * LONG)[:LONG] for unit in (b"a::b:", b"a", b"aab")]


@pytest.fixture(scope="module")
def keyrail(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Keyrail:
    file: Path = tmp_path_factory.mktemp("stalls") / "policy.yaml"
    file.write_text(POLICY, encoding="utf-8")
    return fleet.keyrail("valkey-9.1", policy=file)


def waited(other: Wire, wire: Wire, request: bytes, replies: int) -> float:
    """Seconds until both another client's PING and a request are answered; the least of a few tries."""
    tries = []
    for _ in range(TRIES):
        wire.send(request)
        begun = monotonic()
        assert other.ask("PING") == b"+PONG\r\n"
        wire.frames(replies)
        tries.append(monotonic() - begun)
        if tries[-1] < STALL:
            break
    return min(tries)


@pytest.mark.parametrize("words", [("GET",), ("SET", b"v"), ("HSET", b"f", b"v"), ("APPEND", b"v")])
def test_a_key_stalls_nobody(keyrail: Keyrail, words: tuple[str, *tuple[bytes, ...]]) -> None:
    verb, *more = words
    with keyrail.wire() as wire, keyrail.wire() as other:
        for name in NAMES:
            key = b"a:" + name
            assert waited(other, wire, pack(verb, key, *more), 1) < STALL, name[:10]
            wire.ask("UNLINK", key)


def test_a_client_name_stalls_nobody(keyrail: Keyrail) -> None:
    with keyrail.wire() as wire, keyrail.wire() as other:
        for unit in (b"-a-", b"a-a-a", b"a-a-a-b-"):
            request = pack("CLIENT", "SETNAME", (unit * LONG)[:LONG]) + pack("GET", "k")
            assert waited(other, wire, request, 2) < STALL, unit
