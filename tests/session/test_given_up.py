"""A command that waits inside Keyrail runs only if its client is still there right before its bytes leave."""

from __future__ import annotations

import random

import pytest

from tests.conftest import seeds
from tests.session.given import LARGE, Client, FakeRoute, call

PATIENCE = 1.0
COMMANDS: list[tuple[bytes | str | int, ...]] = [
    ("SET", "k", "v"),
    ("GET", "k"),
    ("BLPOP", "k", "0"),
    ("WATCH", "k"),
    ("EVAL", "return 1", "0"),
    ("SET", "k", "x" * 2 * LARGE),
    ("MULTI",),
    ("NOSUCHCOMMAND", "k"),
]


def sent_by(route: FakeRoute) -> bytes:
    return b"".join(upstream.taken() for upstream in route.all_upstreams())


@pytest.mark.parametrize("seed", seeds(100))
def test_what_has_waited_is_asked_about_before_it_is_sent(seed: int) -> None:
    chance = random.Random(seed)
    route = FakeRoute(pooling=chance.random() < 0.7)
    client = Client(route)
    route.starving = True
    said = [call(*chance.choice(COMMANDS)) for _ in range(chance.randint(1, 3))]
    client.send(b"".join(said))
    assert not sent_by(route)
    waited = 0.0
    for _ in range(chance.randrange(4)):  # it wakes up, and there is none
        pause = chance.choice([0.1, 0.4, 0.9])
        route.moment += pause
        waited += pause
        waiting, route.waiting = route.waiting, []
        for waiter in waiting:
            waiter.arrived()
        assert not sent_by(route)
    # Its connection is reset; or at its end, which says that it has left only behind a wait that is long enough.
    how = chance.choice(["stays", "reset", "end"])
    route.left = lambda seconds: how == "reset" or (how == "end" and seconds > PATIENCE)
    route.feed()
    if how == "reset" or (how == "end" and waited > PATIENCE + 0.001):
        assert not sent_by(route), (how, waited)
        assert client.gone
        assert client.cause == "gave_up"
    elif how == "stays" or waited < PATIENCE - 0.001:
        assert sent_by(route), (how, waited)
        assert not client.gone


def test_the_end_of_a_client_that_waits_for_replies_is_a_half_close() -> None:
    """As with Redis itself, which runs what a client sent before it closed its half, however slow it is."""
    route = FakeRoute()
    route.window = 2
    client = Client(route)
    client.send(call("SET", "a", "1") * 5)
    (upstream,) = route.all_upstreams()
    assert upstream.taken()
    route.moment += 60.0
    route.left = lambda seconds: seconds > PATIENCE
    sent = 0
    for _ in range(10):
        if upstream.head is not None:
            upstream.answer(b"+OK\r\n")
        sent += len(upstream.taken())
    assert client.heard() == b"+OK\r\n" * 5
    assert not client.gone
