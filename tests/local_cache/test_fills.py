"""Each rule by which a cache answers only what Redis could have answered."""

from __future__ import annotations

import random

import pytest

from proxy.hotpath.cache.cached_reply import ReplyMemory, ReplySource
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.local_cache import fills
from proxy.local_cache.barrier import Barrier
from proxy.local_cache.expected import CacheBounds, CachedRequest, RefusedFillError, RefusedPingError
from proxy.local_cache.fills import Fills
from proxy.local_cache.frames import OutOfStepError
from proxy.rules.key_globs import KeyGlob, none_fits
from tests.local_cache.given import BOUNDS, trusted

GET = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
TTL, VALUE, PONG = b":-1\r\n", b"$1\r\nv\r\n", b"+PONG\r\n"
INVALIDATION = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"


class Wire:
    """A tracking connection that answers what a test says."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.cache = ReplyCache()
        self.fills = Fills(self.cache, ReplySource(self.cache), self.sent.append, 10.0)
        self.ended = 0
        self.fills.receive(PONG, 10.0)
        self.sent.clear()

    def begin(self, request: bytes = GET, fields: tuple[bytes, ...] = ()) -> bool:
        return self.fills.begin(CachedRequest(b"k", request, fields, bytes), BOUNDS, 10.0, self.end)

    def end(self) -> None:
        self.ended += 1

    def found(self, now: float = 10.0, request: bytes = GET) -> bytes | None:
        reply = self.cache.find(request, now)
        return None if reply is None else reply.resp3


@pytest.fixture
def wire() -> Wire:
    """One whose reply is in memory."""
    made = Wire()
    assert made.begin()
    made.fills.receive(TTL + VALUE, 10.0)
    assert made.found() == VALUE
    return made


@pytest.fixture
def client() -> ReplySink:
    """One whose command has not been answered."""
    made = ReplySink()
    made.requested = made.pending_replies = 1
    return made


def test_an_invalidation_drops_what_is_kept(wire: Wire) -> None:
    wire.fills.receive(INVALIDATION, 10.0)
    assert wire.found() is None


def test_an_invalidation_behind_the_ttl_makes_the_fill_keep_nothing() -> None:
    wire = Wire()
    wire.begin()
    wire.fills.receive(TTL + INVALIDATION + VALUE, 10.0)
    assert wire.found() is None


def test_a_write_drops_what_is_kept_and_no_fill_begins_while_it_can_run(wire: Wire, client: ReplySink) -> None:
    wire.cache.hold(b"k", client, 1)
    assert wire.found() is None
    assert not wire.begin()
    client.pending_replies = 0
    assert wire.found() is None
    assert wire.begin()


def test_a_fill_that_began_before_a_write_keeps_nothing(client: ReplySink) -> None:
    wire = Wire()
    wire.begin()
    wire.cache.hold(b"k", client, 1)
    client.pending_replies = 0
    wire.fills.receive(TTL + VALUE, 10.0)
    assert wire.found() is None


@pytest.mark.parametrize("forget", [False, True])
def test_what_may_write_any_key_is_waited_for(wire: Wire, client: ReplySink, forget: bool) -> None:
    barrier = Barrier(wire.cache, lambda: [wire.fills])
    wire.cache.hold_back(client, 1, forget)
    wire.sent.clear()
    barrier.settle(10.0)
    wire.fills.receive(PONG * len(wire.sent), 10.0)
    assert wire.found() is None, "it may still run"
    client.pending_replies = 0
    barrier.settle(10.0)
    assert wire.found() is None, "what it has changed is not told yet"
    wire.fills.receive(PONG, 10.0)
    assert wire.found() == (None if forget else VALUE)


def test_what_a_lost_connection_brought_is_found_no_more(wire: Wire) -> None:
    wire.fills.lost()
    assert wire.found() is None
    assert len(wire.cache) == 0


def test_replies_are_not_trusted_for_longer_than_redis_has_answered(wire: Wire) -> None:
    assert wire.found(10.99) == VALUE
    assert wire.found(11.0) is None


def test_a_fill_asks_for_the_ttl_first_and_misses_of_one_request_share_it() -> None:
    wire = Wire()
    assert wire.begin()
    assert wire.begin()
    assert b"".join(wire.sent) == b"*2\r\n$4\r\nPTTL\r\n$1\r\nk\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
    wire.fills.receive(b":500\r\n$1\r\nv", 10.1)
    assert wire.found() is None
    wire.fills.receive(b"\r\n", 10.1)
    assert wire.ended == 2
    assert wire.found(10.498) == b"$1\r\nv\r\n"
    assert wire.found(10.4991) is None
    assert len(wire.cache) == 0


def test_the_first_field_to_expire_ends_a_reply() -> None:
    request = b"*4\r\n$5\r\nHMGET\r\n$1\r\nk\r\n$1\r\na\r\n$1\r\nb\r\n"
    wire = Wire()
    assert wire.begin(request, (b"a", b"b"))
    assert b"$5\r\nHPTTL\r\n$1\r\nk\r\n$6\r\nFIELDS\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\nb\r\n" in b"".join(wire.sent)
    wire.fills.receive(b":900\r\n*2\r\n:-1\r\n:200\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n", 10.0)
    assert wire.found(10.198, request) is not None
    assert wire.found(10.1991, request) is None


@pytest.mark.parametrize(
    "replies", [b":-1\r\n-LOADING Redis is loading\r\n", b"-NOPERM No permissions to access a key\r\n$1\r\nv\r\n"]
)
def test_errors_are_not_kept(replies: bytes) -> None:
    wire = Wire()
    wire.begin()
    wire.fills.receive(replies, 10.0)
    assert len(wire.cache) == 0
    assert wire.ended == 1


@pytest.mark.parametrize("ttl", [b":-1\r\n", b"-NOPERM No permissions to access a key\r\n"])
@pytest.mark.parametrize("error", [b"-WRONGTYPE x\r\n", b"-NOPERM No permissions to access a key\r\n"])
def test_of_an_error_that_lasts_it_is_kept_that_there_is_one(ttl: bytes, error: bytes) -> None:
    wire = Wire()
    wire.begin()
    wire.fills.receive(ttl + error, 10.0)
    known = wire.cache.find(GET, 10.0)
    assert known is not None
    assert known.resp3 is None
    wire.fills.receive(INVALIDATION, 10.0)
    assert len(wire.cache) == 0


@pytest.mark.parametrize(
    "error",
    [
        b"-NOPERM User default has no permissions to run the 'pttl' command\r\n",
        b"-NOPERM this user has no permissions to run the 'pttl' command or its subcommand\r\n",
        b"-ERR unknown command 'PTTL', with args beginning with: 'k' \r\n",
    ],
)
def test_fills_end_where_redis_tells_no_ttls(error: bytes) -> None:
    wire = Wire()
    wire.begin()
    with pytest.raises(RefusedFillError, match="PTTL: "):
        wire.fills.receive(error, 10.0)


def test_of_a_large_value_only_that_it_is_large_is_kept() -> None:
    wire = Wire()
    wire.begin()
    wire.fills.receive(b":-1\r\n$5000\r\n", 10.0)
    for _ in range(50):
        wire.fills.receive(b"x" * 100, 10.0)
    wire.fills.receive(b"\r\n", 10.0)
    known = wire.cache.find(GET, 10.0)
    assert known is not None
    assert known.resp3 is None
    assert wire.cache.take_touched() == {}


def test_what_cannot_be_the_reply_is_out_of_step() -> None:
    wire = Wire()
    with pytest.raises(OutOfStepError):
        wire.fills.receive(b":1\r\n", 10.0)
    with pytest.raises(OutOfStepError):
        Wire().fills.receive(b"x\r\n", 10.0)


@pytest.mark.parametrize("error", [b"-BUSY a script runs\r\n", b"-LOADING x\r\n", b"-NOPERM x\r\n"])
def test_an_error_in_place_of_a_pong_shows_nothing(error: bytes) -> None:
    wire = Wire()
    assert wire.fills.tick(10.25)
    with pytest.raises(RefusedPingError):
        wire.fills.receive(error, 10.3)


def test_silence_is_a_loss() -> None:
    wire = Wire()
    assert wire.fills.tick(10.25)
    assert wire.fills.tick(11.2)
    assert not wire.fills.tick(11.25)


def test_fills_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fills, "MOST_FILLS", 1)
    wire = Wire()
    assert wire.begin()
    assert not wire.begin(b"*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n")
    wire.fills.lost()
    wire.fills.tell()
    assert wire.ended == 1


def keep(cache: ReplyCache, memory: ReplyMemory, name: bytes, value: bytes) -> None:
    key = cache.begin_fill(name)
    assert key is not None
    cache.keep(trusted(cache), 0, memory, key, b"GET " + name, value, value, 0.0, 100.0, 1, 0)
    cache.end_fill(key)


def test_the_replies_used_least_recently_leave() -> None:
    cache, memory = ReplyCache(), ReplyMemory(6500)
    for name in (b"a", b"b", b"c", b"d"):
        keep(cache, memory, name, b"x" * 600)
    assert cache.find(b"GET a", 1.0) is not None
    keep(cache, memory, b"e", b"x" * 600)
    found = [name for name in (b"a", b"b", b"c", b"d", b"e") if cache.find(b"GET " + name, 1.0)]
    assert found == [b"a", b"c", b"d", b"e"]
    assert cache.evicted == 1
    assert (memory.size <= 6500, memory.entries) == (True, 4)


def test_memory_stays_within_its_bound_over_many_keys_and_caches() -> None:
    memory = ReplyMemory(100_000)
    caches = [ReplyCache() for _ in range(3)]
    for number in range(5000):
        keep(caches[number % 3], memory, b"%d" % (number % 1700), b"x" * (number % 300))
        assert memory.size <= 100_000
    kept = sum(len(cache) for cache in caches)
    assert kept == sum(cache.remembered() for cache in caches)
    for cache in caches:
        cache.clear()
    assert (memory.size, memory.newest, memory.oldest) == (0, None, None)


def test_writes_that_are_over_are_forgotten() -> None:
    cache, client = ReplyCache(), ReplySink()
    for number in range(10_000):
        client.requested += 1
        cache.hold(b"%d" % number, client, client.requested)
        client.pending_replies = min(10, client.requested)
    assert cache.remembered() < 1100


@pytest.mark.parametrize("change", ["drop", "evict", "clear", "replace", "hold"])
def test_the_reply_that_was_found_last_is_found_no_more_when_it_has_gone(change: str) -> None:
    cache, memory = ReplyCache(), ReplyMemory(1 << 20)

    def keep(reply: bytes) -> None:
        key = cache.begin_fill(b"a")
        assert key is not None
        cache.keep(trusted(cache), 0, memory, key, b"GET a", reply, reply, 0.0, 50.0, 1, 0)
        cache.end_fill(key)

    def found() -> bytes | None:
        reply = cache.find(b"GET a", 1.0)
        return None if reply is None else reply.resp3

    keep(b"1")
    assert [found(), found()] == [b"1", b"1"]
    match change:
        case "drop":
            cache.drop(b"a")
        case "evict":
            assert memory.oldest is not None
            cache.evict(memory.oldest)
        case "clear":
            cache.clear()
        case "hold":
            cache.hold(b"a", ReplySink(), 1)
        case _:
            keep(b"2")
    assert found() == (b"2" if change == "replace" else None)
    assert cache.find(b"GET b", 1.0) is None


def test_most_keys_are_told_from_those_that_are_hot_without_a_look_at_their_names() -> None:
    rng = random.Random(5)
    cache = ReplyCache()
    names = [b"key:%d" % rng.randrange(10**6) for _ in range(1000)] + [b"", b"x", b"\xff"]
    for hot in ([], names[:3], names[-3:], names):
        cache.become_hot(hot, ())
        for name in names:
            held = b"GET " + name + b"\r\n"
            place = (held, 4, 4 + len(name))
            assert cache.may_concern(*place) or not cache.concerns(*place)
    cache.become_hot(names[:5], ())
    assert sum(cache.may_concern(name, 0, len(name)) for name in names) < 100
    cache.concern(none_fits(frozenset({KeyGlob.of("always:*")})))
    assert cache.may_concern(b"key", 0, 3)


def test_touched_keys_are_told_once() -> None:
    cache = ReplyCache()
    keep(cache, ReplyMemory(5000), b"a", b"v")
    for _ in range(3):
        assert cache.find(b"GET a", 1.0) is not None
    assert cache.take_touched() == {b"a": 0}
    assert cache.take_touched() == {}


def test_bounds_hold_for_each_fill() -> None:
    wire = Wire()
    read = CachedRequest(b"k", GET, (), bytes)
    wire.fills.begin(read, CacheBounds(0.5, 10, ReplyMemory(1 << 20), 1, 0), 10.0, wire.end)
    wire.fills.receive(b":-1\r\n$1\r\nv\r\n", 10.0)
    assert wire.found(10.49) == b"$1\r\nv\r\n"
    assert wire.found(10.5) is None
