"""One client whose reads memory may answer, and replicas, too: memory first, and what memory may answer is never asked
of a replica, which may know more than memory does, or less."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.commands.cached_reads import cache_role
from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD, Lane
from proxy.hotpath.cache.cache_use import CacheUse
from proxy.hotpath.cache.cached_reads import CachedReads
from proxy.hotpath.cache.cached_reply import ReplyMemory
from proxy.hotpath.cache.cached_requests import part_of
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.replicas.client_reads import ClientReads
from proxy.hotpath.replicas.reader_place import ReplicaGroup
from proxy.net.cache.missing_replies import Wait
from tests.local_cache.given import trusted
from tests.net.replica_stage import RULES, VALUE, Stage
from tests.session.clustered import Routed
from tests.session.given import Client, call, route_with

ROLES = bytes(map(cache_role, STANDARD.specs))
KEPT = b"$4\r\nkept\r\n"


class Both(Stage):
    """Of the keys `a:*`, memory answers `a:hot`."""

    def cached(self, *kept: str) -> Client:
        """A client; memory has the reply to GET of these keys."""
        client = self.client()
        cache, use = ReplyCache(), CacheUse(1)
        cache.become_hot({b"a:hot"}, ())
        for key in kept:
            entry = cache.begin_fill(key.encode())
            assert entry is not None
            cache.keep(trusted(cache), 0, ReplyMemory(1 << 20), entry, call("GET", key), KEPT, KEPT, 0.0, 50.0, 1, 2)
            cache.end_fill(entry)
        client.intake.cached_reads = CachedReads(
            cache, [cache], ROLES, lambda: 1.0, lambda: False, [use], client=client.intake.sender
        )
        return client


@pytest.fixture(params=[0, 1], ids=["runs", "traced"])
def both(request: pytest.FixtureRequest) -> Both:
    return Both(request.param)


def test_memory_answers_first(both: Both) -> None:
    client = both.cached("a:hot")
    client.say("GET", "a:hot")
    assert client.heard() == KEPT
    assert both.taken() == (b"", b"")


def test_what_memory_answered_is_not_older_elsewhere(both: Both) -> None:
    client = both.cached("a:hot")
    client.say("GET", "a:hot")
    client.say("GET", "a:1")
    assert both.taken() == (call("GET", "a:1"), b""), "its replica may be behind what memory had"
    both.route.upstream().answer(VALUE)
    both.look(200)
    client.say("GET", "a:1")
    assert both.taken() == (b"", call("GET", "a:1"))


@pytest.mark.parametrize("words", [("GET", "a:hot"), ("MGET", "a:1", "a:hot")], ids=" ".join)
def test_what_memory_may_answer_is_asked_of_the_primary(both: Both, words: tuple[str, ...]) -> None:
    client = both.cached()
    client.say(*words)
    assert both.taken() == (call(*words), b"")


def test_replies_stay_in_order() -> None:
    both = Both()
    client = both.cached("a:hot")
    client.send(call("GET", "a:1") + call("GET", "a:hot") + call("GET", "a:2"))
    assert both.taken() == (b"", call("GET", "a:1"))
    assert client.heard() == b""
    both.reader_of(client).answer(VALUE)
    assert client.heard() == VALUE + KEPT
    assert both.taken()[0] == call("GET", "a:2")
    both.route.upstream().answer(VALUE)
    assert client.heard() == VALUE


def test_a_lost_replica_is_replaced_below_what_memory_has_answered() -> None:
    both = Both()
    client = both.cached("a:hot")
    client.send(call("GET", "a:1") + call("GET", "a:hot"))
    both.taken()
    both.members[both.reader_of(client)].lose()
    assert both.taken()[0] == call("GET", "a:1")
    assert client.heard() == b""
    both.route.upstream().answer(VALUE)
    assert client.heard() == VALUE + KEPT


def test_memory_is_not_asked_before_reads_of_a_replica_are_answered() -> None:
    # The replica may know a write that comes behind another one, by which memory has lost what it had.
    both = Both()
    client = both.cached("a:hot")
    client.send(call("GET", "a:1") + call("GET", "a:hot"))
    assert both.taken() == (b"", call("GET", "a:1"))
    cached = client.intake.cached_reads
    assert cached is not None
    assert [use.hits for use in cached.uses] == [0]
    cached.cache.drop(b"a:hot")
    both.reader_of(client).answer(VALUE)
    assert both.taken() == (call("GET", "a:hot"), b"")
    both.route.upstream().answer(VALUE)
    assert client.heard() == 2 * VALUE


@pytest.mark.parametrize("words", [("GET", "a"), ("MGET", "a", "b")], ids=" ".join)
def test_with_a_cluster_upstream_a_read_that_memory_lacks_is_one_of_the_primaries_of_its_keys(
    words: tuple[str, ...],
) -> None:
    """Replicas of those may be behind what it is told, whichever node the command before it was for."""
    client = Routed(route_with(RULES))
    reads = client.sender.reads = ClientReads(client.sender, ReplicaGroup(), lambda: 1.0, lambda place: None)
    for name, number in zip("abc", (2, 0, 1), strict=True):  # the first one at each node is not the intake's alone
        client.say("GET", name)
        client.at(number).answer(b"$-1\r\n")
        assert client.heard() == b"$-1\r\n"
    cache = ReplyCache()
    cache.become_hot({b"a", b"b"}, ())
    client.intake.cached_reads = CachedReads(cache, [cache], ROLES, lambda: 1.0, lambda: False, [CacheUse(1)])
    wait = Wait(client, 1.0)
    caches: Any = SimpleNamespace(seek=lambda *_: (wait, True), look_again=lambda _: None)
    client.ports = replace(client.ports, caches=caches)
    client.say(*words)
    for number in range(3):
        reads.place(number).marked = False  # while it waits for memory, replicas are asked how far they are
    for name in words[1:]:
        entry = cache.begin_fill(name.encode())
        assert entry is not None
        request, reply = (call(*words), KEPT) if len(words) == 2 else (part_of(name.encode()), b"*1\r\n" + KEPT)
        cache.keep(trusted(cache), 0, ReplyMemory(1 << 20), entry, request, reply, reply, 0.0, 50.0, 1, 2)
    wait.end()
    assert client.heard().endswith(KEPT)
    owners = {client.nodes.owners[slot_of(name.encode())] for name in words[1:]}
    assert {place.number for place in reads.places if place.marked} >= owners


def test_what_a_script_has_read_on_a_replica_is_not_older_in_memory(both: Both) -> None:
    """Redis does not confine it to the keys that it declares."""
    client = both.cached("a:hot")
    script = ("EVAL_RO", "return redis.call('get', 'a:hot')", 1, "a:1")
    client.say(*script)
    assert both.taken() == (call(*script), b""), "the primary is the first to know it"
    both.route.upstream(lane=Lane.SLOW).answer(VALUE)
    assert client.heard() == VALUE
    cached = client.intake.cached_reads
    assert cached is not None
    assert not cached.cache.waits_for_writers()
    cached.cache.release()
    both.look(200)
    client.say(*script)
    assert both.taken() == (b"", call(*script))
    both.reader_of(client).answer(VALUE)
    assert client.heard() == VALUE
    client.say("GET", "a:hot")
    assert both.taken() == (call("GET", "a:hot"), b""), "invalidations may still be on their way"
