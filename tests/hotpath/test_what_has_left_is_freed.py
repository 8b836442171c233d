"""What has left a queue is freed at once, and frees nothing else: no chain of it grows behind what somebody keeps.

Compiled, a chain of entries is freed by one call for each, within each other: tens of thousands end the worker.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest

from proxy.hotpath.order.reply_order import Segment
from proxy.hotpath.upstream.in_flight import HIDE, LOCAL, MEMBERS, PEEK, UNWRAP, InFlightEntry
from tests.hotpath.bench import OK, ONE, PIPELINE, Bench
from tests.hotpath.test_reply_order import Asker

MANY = 300


def living(kind: type) -> int:
    return sum(type(each) is kind for each in gc.get_objects())


def busy(bench: Bench, clients: list[Any]) -> int:
    """Many replies come, and one is always pending; how many entries there are more than before."""
    before = living(InFlightEntry)
    bench.upstream.send_run(clients[0], b"x", 1)
    for number in range(MANY):
        bench.upstream.send_run(clients[1 - number % 2], b"x", 1)
        if number % 3 == 0:
            bench.upstream.enqueue(clients[1], 1, LOCAL, OK)
        bench.upstream.receive(OK)
    found = living(InFlightEntry) - before
    bench.upstream.receive(OK)
    assert not bench.events
    assert bench.pending_replies() == []
    return found


@pytest.mark.parametrize(
    ("action", "payload"),
    [(MEMBERS, {}), (MEMBERS, {1: (HIDE, None)}), (UNWRAP, ({0: (PEEK, len), 1: (HIDE, None)}, bytes))],
)
def test_an_array_that_was_expanded_keeps_none_behind_it(action: int, payload: object) -> None:
    bench = Bench(PIPELINE)
    clients = [bench.client(), bench.client()]
    bench.upstream.enqueue(clients[0], 1, action, payload)
    bench.upstream.receive(b"*2\r\n" + ONE + ONE)
    assert busy(bench, clients) < 5
    assert bench.upstream.array_end is None


@pytest.mark.parametrize("action", [HIDE, LOCAL, MEMBERS])
def test_an_entry_that_somebody_keeps_keeps_none_behind_it(action: int) -> None:
    bench = Bench(PIPELINE)
    clients = [bench.client(), bench.client()]
    bench.upstream.send_run(clients[1], b"x", 1)
    payload = OK if action == LOCAL else {}
    kept = InFlightEntry(clients[0], 1, action, payload)
    bench.upstream.expect(kept)
    bench.upstream.enqueue(clients[1], 1, HIDE, None)
    bench.upstream.receive(OK + (b"" if action == LOCAL else b"*1\r\n" + OK) + OK)
    assert kept.next is None
    assert busy(bench, clients) < 5


def test_what_is_lost_with_its_connection_is_no_chain() -> None:
    bench = Bench(PIPELINE)
    clients = [bench.client(), bench.client()]
    for number in range(MANY):
        bench.upstream.send_run(clients[number % 2], b"x", 1)
    first = bench.upstream.head
    before = living(InFlightEntry)
    assert bench.upstream.abandon() == clients
    assert first.next is None
    assert living(InFlightEntry) == before - MANY + 1


def test_a_place_in_the_order_that_somebody_keeps_keeps_none_behind_it() -> None:
    asker = Asker()
    for node in asker.both:
        asker.ask("run", node, OK)
    assert asker.sender.order is not None
    kept = asker.sender.order.first
    before = living(Segment)
    for number in range(MANY):
        node = asker.both[number % 2]
        asker.ask("run", node, OK)
        node.says(len(OK))
    assert kept is not asker.sender.order.first
    assert living(Segment) - before < 5
    asker.finish()
