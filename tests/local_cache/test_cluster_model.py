"""With a cluster upstream whose slots move, no order of events makes a cache answer what an application could
notice."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import Any

import pytest

from proxy.local_cache import fills
from proxy.local_cache.expected import Fill
from tests.conftest import seed_budget
from tests.local_cache.cluster_model import CLUSTER_KEYS, SLOTS_OF_KEYS, ClusterWorld
from tests.local_cache.playing import noticed, played

EVENTS = {
    "read": 60.0,
    "ask": 60.0,
    "deliver": 60.0,
    "send": 1.5,
    "look": 1.0,
    "delete": 0.8,
    "script": 0.3,
    "run": 12.0,
    "answer": 14.0,
    "foreign": 4.0,
    "expire": 1.0,
    "remove": 1.0,
    "flush": 0.2,
    "lose": 0.2,
    "pass": 6.0,
    "late": 0.03,
    "open": 0.3,
    "move": 0.6,
    "close": 0.6,
    "jump": 0.15,
    "learn": 1.0,
    "follow": 4.0,
    "fail": 0.04,
    "heal": 1.0,
}
NAMES, WEIGHTS = list(EVENTS), list(accumulate(EVENTS.values()))
RUNS = seed_budget.of(60)
STEPS = 1000


def step(world: ClusterWorld, rng: random.Random) -> None:
    """One event."""
    key = CLUSTER_KEYS[0] if rng.random() < 0.7 else rng.choice(CLUSTER_KEYS)
    slot, node, client = rng.choice(SLOTS_OF_KEYS), rng.choice(world.nodes), rng.choice(world.clients)
    expires = rng.choice([None, None, 0.02, 0.3])
    owner = world.owner(key)
    match rng.choices(NAMES, cum_weights=WEIGHTS)[0]:
        case "read":
            world.read(key)
        case "ask":
            for each in world.nodes:
                for _ in range(rng.choice([1, 2, 6])):
                    each.run_asked()
        case "deliver":
            world.deliver(rng.choice([node, owner]), rng.choice([1, 40, 1000, 1000, 1000]))
        case "send":
            world.send(client, "set", key, expires)
        case "look" | "delete" | "script" as kind:
            world.send(client, kind, key, expires)
        case "run":
            for each in rng.choice([world.nodes, world.nodes, [node]]):
                world.run(client, each)
        case "answer":
            world.answer(client)
        case "foreign":
            owner.write(key, None if expires is None else world.now + expires, delete=rng.random() < 0.2)
        case "expire":
            owner.expire(key, rng.choice([0.01, 0.2]))
        case "remove":
            if owner.remove_expired(key):
                owner.invalidate(key)
        case "flush":
            world.flush(node)
        case "lose":
            world.lose(node)
        case "pass":
            world.wait(rng.choice([0.001, 0.01, 0.1, 0.2]))
            world.tick()
        case "late":
            world.wait(1.5)
        case "open":
            world.open(slot, node.number)
        case "move":
            world.move(key)
        case "close":
            world.close(slot)
        case "jump":
            world.jump(slot, node.number)
        case "learn":
            node.learn()
        case "follow":
            world.follow()
        case "fail":
            world.fail(node)
        case "heal":
            world.heal(node)


def play(seed: int) -> int:
    """One interleaving; how many replies came from memory."""
    return played(ClusterWorld(), step, CLUSTER_KEYS, STEPS, seed)


def test_no_order_of_events_can_be_noticed() -> None:
    assert sum(play(seed) for seed in range(RUNS)) > 10 * RUNS


def caught() -> bool:
    """Whether the model notices anything in some interleaving."""
    return noticed(play, RUNS * 20)


def keeps_missing(patch: pytest.MonkeyPatch) -> None:
    class Keeping(Fill):
        def __init__(self, *arguments: Any, keeps_missing: bool) -> None:
            assert not keeps_missing
            super().__init__(*arguments, keeps_missing=True)

    patch.setattr(fills, "Fill", Keeping)


@pytest.mark.source
def test_the_simulation_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    keeps_missing(monkeypatch)
    assert caught()
