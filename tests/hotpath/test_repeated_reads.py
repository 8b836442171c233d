"""Reads of a hot key that are answered together leave the same behind as reads that come one by one."""

from __future__ import annotations

import random

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.cache.cached_requests import part_of
from proxy.hotpath.counting.sampler import Sampler
from proxy.hotpath.plan.leased_tokens import LeasedTokens, TokenSet
from proxy.hotpath.plan.plan import Plan
from tests.hotpath.gathering import command_id, pack
from tests.hotpath.remembering import GET, Cached

WARM = pack("GET", "warm")
VALUE = b"$1\r\nv\r\n"
COMMANDS = [GET, pack("get", "hot"), WARM, pack("GET", "cold"), pack("MGET", "hot", "warm"), pack("SET", "cold", "1")]
WRITE = pack("SET", "hot", "2")


def client_of(seed: int, *, counts: bool, traces: int) -> Cached:
    plan = Plan(len(STANDARD.specs))
    if counts:
        for name in ("GET", "MGET", "SET"):
            plan.count_keys(command_id(name))
    client = Cached(plan)
    client.cache.become_hot({b"hot", b"warm"}, ())
    for request in COMMANDS[:3]:
        client.keep(request, VALUE, key=b"warm" if request is WARM else b"hot")
    client.intake.config.sampler = Sampler(traces, seed=seed)
    return client


def left_behind(client: Cached) -> object:
    """All that a client's commands change, but for where writes to it begin and end."""
    counted = client.counters.harvest(10)
    return (
        b"".join(client.sent),
        b"".join(chunk for _, chunk, *_ in client.log),
        client.intake.calls.take(),
        (counted.total, counted.floor, sorted(counted.key_counts, key=lambda one: one.key)),
        (client.use.hits, client.use.hit_bytes, client.use.ages),
        client.cache.take_touched(),
        client.intake.config.sampler.left,
        (client.sender.remembered, client.sender.requested, client.sender.pending_replies),
    )


def commands(chance: random.Random) -> list[bytes]:
    """Commands of which many stand several times one behind the other."""
    sent: list[bytes] = []
    for _ in range(chance.randint(1, 12)):
        chosen = WRITE if chance.random() < 0.03 else chance.choice(COMMANDS)
        sent += [chosen] * chance.choice([1, 1, 2, 3, 17])
    return sent


@pytest.mark.parametrize("seed", range(300))
def test_together_as_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    counts, traces = chance.random() < 0.7, chance.choice([0, 0, 5])
    together, alone = (client_of(seed + 1, counts=counts, traces=traces) for _ in range(2))
    for _ in range(3):
        sent = commands(chance)
        together.intake.receive(b"".join(sent))
        for request in sent:
            alone.intake.receive(request)
        if chance.random() < 0.5:
            for client in (together, alone):
                client.redis_answers(b"+OK\r\n" * client.sender.pending_replies)
    assert left_behind(together) == left_behind(alone)


def test_the_answers_that_gather_are_bounded() -> None:
    client = client_of(1, counts=True, traces=0)
    client.keep(GET, b"$4000\r\n" + b"x" * 4000 + b"\r\n")
    client.intake.receive(GET * 200)
    assert len(client.sent) > 10
    assert max(map(len, client.sent)) < 3 * 65536


def test_a_large_answer_is_not_taken_for_that_of_the_next_read() -> None:
    client = client_of(1, counts=False, traces=0)
    client.keep(GET, b"$5000\r\n%b\r\n" % bytes(5000))
    client.keep(part_of(b"warm"), b"*1\r\n" + VALUE, key=b"warm")
    client.intake.receive(GET + pack("MGET", "warm") * 5)
    assert client.cache.take_touched() == {b"hot": 1, b"warm": 5}
    client.intake.receive(GET)
    assert client.reads.hit is None, "who holds it keeps it in memory"


def test_reads_under_a_limit_are_paid_for_one_by_one() -> None:
    client = client_of(1, counts=True, traces=0)
    client.intake.config.plan.spend(command_id("GET"), b"\0")
    tokens = [LeasedTokens(3), LeasedTokens(1000), LeasedTokens(1000)]
    client.intake.token_sets = [TokenSet(*tokens)]
    client.intake.receive(GET * 5)
    assert b"".join(client.sent) == VALUE * 3
    assert [what for what, *_ in client.log] == ["special"] * 2
