"""A client's reads are answered from memory in their place, and its other commands hold their keys until they are
answered."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.cluster.split_commands import split_commands
from proxy.commands.cached_reads import ANY_KEYS_UNTOLD, cache_role
from proxy.commands.command import Command
from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD
from proxy.hotpath.cache.cache_outcomes import COUNTED, MIXED, NOT_KEPT, UNREAD
from proxy.hotpath.cache.cache_use import CacheUse
from proxy.hotpath.cache.cached_reads import MOST_PARTS
from proxy.hotpath.cache.cached_reply import ReplyMemory
from proxy.hotpath.cache.cached_requests import part_of
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.cluster.router import Router
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.rules.key_globs import KeyGlob, none_fits
from proxy.session import reply_mode
from proxy.session.commands import cached_answers
from tests.hotpath.gathering import Upstream, command_id, pack
from tests.hotpath.remembering import ASKED, GET, Cached
from tests.hotpath.routed import owners
from tests.resp import words


def test_a_pipeline_of_hits_is_one_write_and_asks_once_whether_it_is_up_to_date() -> None:
    client = Cached()
    client.intake.receive(GET * 5)
    assert (client.sent, client.take_runs()) == ([b"$1\r\nv\r\n" * 5], [])
    assert (client.polls, client.use.hits, client.sender.pending_replies) == (1, 5, 0)
    client.intake.receive(GET)
    assert client.polls == 2


def test_hits_stand_in_their_place_among_replies_of_redis() -> None:
    client = Cached()
    client.intake.receive(pack("GET", "a") + pack("SET", "b", "1") + GET + pack("GET", "c") + GET)
    assert client.take_runs() == [(pack("GET", "a") + pack("SET", "b", "1"), 2), (pack("GET", "c"), 1)]
    assert client.sent == []
    client.redis_answers(b"$1\r\na\r\n", b"+OK\r\n")
    assert client.sent == [b"$1\r\na\r\n+OK\r\n$1\r\nv\r\n"]
    client.redis_answers(b"$1\r\nc\r\n")
    assert client.sent[1:] == [b"$1\r\nc\r\n$1\r\nv\r\n"]
    assert client.sender.finished(client.sender.requested)


def test_each_protocol_has_its_reply() -> None:
    for resp3, reply in ((False, b"$-1\r\n"), (True, b"_\r\n")):
        client = Cached(resp3=resp3)
        client.keep(GET, b"_\r\n", b"$-1\r\n")
        client.intake.receive(GET)
        assert client.sent == [reply]


def test_what_redis_has_sent_and_nobody_has_read_may_be_an_invalidation() -> None:
    client = Cached()
    client.waits = True
    client.intake.receive(GET)
    assert client.take_missed() == [GET]
    assert client.reads.outcome == UNREAD


@pytest.mark.parametrize("write", [pack("SET", "hot", "2"), pack("DEL", "x", "hot"), pack("rename", "x", "hot")])
def test_a_client_reads_its_own_write(write: bytes) -> None:
    client = Cached()
    client.intake.receive(write)
    assert client.take_runs() == [(write, 1)]
    client.intake.receive(GET)
    assert client.take_missed() == [GET]
    client.forward_hot(GET)
    assert client.cache.begin_fill(b"hot") is None
    client.redis_answers(b"+OK\r\n")
    assert client.cache.begin_fill(b"hot") is None, "the read behind it may be older than a fill"
    client.redis_answers(b"$1\r\n2\r\n")
    assert client.cache.begin_fill(b"hot") is not None


def test_another_clients_pending_write_holds_the_key_for_all() -> None:
    writer, reader = Cached(), Cached()
    reader.reads.cache = writer.cache
    writer.intake.receive(pack("INCR", "hot"))
    reader.intake.receive(GET)
    assert reader.take_missed() == [GET]


@pytest.mark.parametrize("name", ["DEL", "UNLINK"])
def test_a_write_over_slots_holds_its_keys_until_each_part_is_answered(name: str) -> None:
    client = Cached()
    nodes = [Upstream(client.log) for _ in range(2)]
    client.intake.config.router = router = Router(owners(2))
    client.intake.config.split_commands = split_commands(STANDARD)
    client.sender.nodes = list(nodes)
    late = router.owner(slot_of(b"hot"))
    soon = next(key for key in (b"a", b"b") if router.owner(slot_of(key)) != late)
    client.intake.receive(pack(name, soon, "hot"))
    assert client.sender.pending_replies
    assert client.log == [], "the session has not been asked"
    for number in (1 - late, late):
        assert client.cache.begin_fill(b"hot") is None
        nodes[number].receive(b":1\r\n")
    assert client.cache.begin_fill(b"hot") is not None


def test_keys_that_are_not_concerned_hold_nothing() -> None:
    client = Cached()
    client.intake.receive(pack("SET", "cold", "1") + pack("GET", "cold") + GET)
    assert client.take_runs() == [(pack("SET", "cold", "1") + pack("GET", "cold"), 2)]
    assert client.sent == []
    assert client.cache.remembered() == 1


MGET = pack("MGET", "hot", "warm")


def with_parts(**replies: bytes | None) -> Cached:
    client = Cached()
    client.cache.become_hot({b"hot", b"warm"}, ())
    for name, reply in replies.items():
        client.keep(part_of(name.encode()), reply, None if reply != b"*1\r\n_\r\n" else b"*1\r\n$-1\r\n", name.encode())
    return client


@pytest.mark.parametrize(("resp3", "missing"), [(True, b"_\r\n"), (False, b"$-1\r\n")])
def test_a_read_of_several_keys_is_answered_from_its_parts(resp3: bool, missing: bytes) -> None:
    client = with_parts(hot=b"*1\r\n$1\r\nv\r\n", warm=b"*1\r\n_\r\n")
    client.reads.resp3 = resp3
    client.intake.receive(pack("mget", "warm", "hot", "hot") + pack("MGET", "warm"))
    reply = b"*3\r\n" + missing + b"$1\r\nv\r\n" * 2
    assert (client.sent, client.take_runs()) == ([reply + b"*1\r\n" + missing], [])
    assert (client.use.hits, client.use.hit_bytes) == (2, len(reply) + 4 + len(missing))
    assert client.use.ages == 2 * (1.0 - ASKED), "a reply is as old as its oldest part"
    assert client.cache.take_touched() == {b"hot": 2, b"warm": 2}


def test_without_one_of_its_parts_it_is_not_answered() -> None:
    client = with_parts(hot=b"*1\r\n$1\r\nv\r\n")
    client.intake.receive(MGET)
    assert client.take_missed() == [MGET]
    assert client.reads.answer_parts([b"hot", b"warm", b"other"]) is None
    assert client.reads.absent == [b"warm", b"other"]
    assert client.use.hits == 0


def test_redis_answers_it_if_no_rule_is_about_one_of_its_keys() -> None:
    client = with_parts(hot=b"*1\r\n$1\r\nv\r\n", warm=b"*1\r\n_\r\n")
    many = pack("MGET", *["hot"] * (MOST_PARTS + 1))
    for read in (pack("MGET", "hot", "cold"), many):
        client.intake.receive(read)
        assert client.take_runs() == [(read, 1)]
        assert client.cache.begin_fill(b"hot") is None, "what Redis answers may be newer"
        client.redis_answers(b"*0\r\n")


def test_a_write_of_one_of_its_keys_drops_that_part() -> None:
    client = with_parts(hot=b"*1\r\n$1\r\nv\r\n", warm=b"*1\r\n_\r\n")
    client.intake.receive(pack("SET", "warm", "1") + MGET)
    assert client.log[-1] == ("special", MGET)
    client.redis_answers(b"+OK\r\n")
    assert client.reads.answer_parts([b"hot", b"warm"]) is None
    assert client.reads.absent == [b"warm"]


def test_a_part_that_is_too_large_and_parts_that_are_only_audited() -> None:
    client = with_parts(hot=None, warm=b"*1\r\n_\r\n")
    assert client.reads.answer_parts([b"hot", b"warm"]) is None
    assert client.reads.outcome == NOT_KEPT
    client = with_parts(hot=b"*1\r\n$1\r\nv\r\n")
    audit = CacheUse(2)
    client.reads.uses, client.reads.mask = [audit], 2
    assert client.reads.answer_parts([b"hot", b"hot"]) is None
    assert (client.reads.outcome, audit.audited_hits, audit.hits) == (COUNTED, 1, 0)
    found = client.cache.begin_fill(b"warm")
    assert found is not None
    client.cache.keep(
        client.source, 0, client.memory, found, part_of(b"warm"), b"*1\r\n_\r\n", b"*1\r\n$-1\r\n", ASKED, 50.0, 0, 2
    )
    client.reads.uses, client.reads.mask = [client.use, audit], 3
    assert client.reads.answer_parts([b"hot", b"warm"]) is None
    assert (client.reads.outcome, audit.audited_hits, client.use.hits) == (MIXED, 2, 0)
    client.intake.receive(MGET)
    assert client.take_runs() == [(MGET, 1)]
    assert client.cache.begin_fill(b"hot") is None, "this client may be answered its key from memory"


def test_keys_by_pattern() -> None:
    client = Cached()
    client.cache.concern(none_fits(frozenset({KeyGlob.of("product:*")})))
    client.intake.receive(pack("SET", "product:1", "1") + pack("SET", "order:1", "1"))
    assert client.cache.begin_fill(b"product:1") is None
    assert client.cache.begin_fill(b"order:1") is not None


@pytest.mark.parametrize(
    ("text", "held_back", "looks"),
    [
        ("SORT_RO l GET h*", False, True),
        ("SORT_RO l LIMIT 0 1", False, True),
        ("SORT l GET h*", True, False),
        ("SORT l BY h* STORE x", True, False),
        ("SORT l by\0 h*", True, False),
        ("SORT l ALPHA STORE x", False, False),
        ("KEYS h*", False, True),
        ("EVAL_RO x 0", False, True),
        ("EVAL x 0", True, False),
        ("FCALL_RO f 1 hot", False, True),
        ("SCRIPT FLUSH", False, False),
        ("DBSIZE", False, True),
    ],
)
def test_so_do_those_that_the_session_sends(text: str, held_back: bool, looks: bool) -> None:
    client = Cached()
    state = SimpleNamespace(reply_mode=reply_mode.ON, transaction=None)
    session = cast("Any", SimpleNamespace(sender=client.sender, state=state, ports=SimpleNamespace(caches=None)))
    before = cached_answers.before(session)
    client.sender.forward(client.fake_upstream, b"")
    cached_answers.hold(session, client.reads, Command(STANDARD, words(text)), before)
    assert (client.cache.held_back, client.sender in client.cache.looking) == (held_back, looks)


@pytest.mark.parametrize("name", ["DBSIZE", "RANDOMKEY", "CLUSTER COUNTKEYSINSLOT 1", "CLUSTER GETKEYSINSLOT 1 10"])
def test_reads_of_keys_that_they_do_not_name_keep_memory_from_their_client_alone(name: str) -> None:
    client = Cached()
    client.reads.client = client.sender
    client.intake.receive(pack(*name.split()))
    assert not client.cache.held_back
    assert client.reads.answer(GET) is None
    client.reads.client = ReplySink()
    assert client.reads.answer(GET) is not None, "others are answered"
    client.reads.client = client.sender
    assert client.cache.have_looked() == {}
    client.redis_answers(b":1\r\n")
    ((reader, at),) = client.cache.have_looked().items()
    client.cache.end_look(reader, at - 1)
    assert client.reads.answer(GET) is None
    client.cache.end_look(reader, at)
    assert client.reads.answer(GET) is not None, "nothing has been dropped"
    other = Cached()
    other.reads.mask = 0
    other.intake.receive(pack(*name.split()))
    assert not other.cache.looking, "nothing is ever answered to this client from memory"


def test_a_look_within_a_transaction_begins_with_exec() -> None:
    client = Cached()
    client.reads.begin_transaction()
    client.intake.receive(pack("DBSIZE"))
    client.redis_answers(b"+QUEUED\r\n")
    assert not client.cache.looking
    assert not client.reads.end_transaction(client.sender, client.sender.requested + 1)
    assert (client.cache.held_back, client.cache.looking) == (False, {client.sender: client.sender.requested + 1})


def test_commands_that_may_write_any_key_hold_everything_back() -> None:
    client = Cached()
    client.intake.receive(pack("COPY", "a", "b", "DB", "0"))
    assert client.cache.held_back
    assert client.cache.waits_for_writers()
    client.redis_answers(b"+OK\r\n")
    assert not client.cache.waits_for_writers()
    client.cache.release()
    client.sent.clear()
    client.intake.receive(GET)
    assert client.sent == [b"$1\r\nv\r\n"]


UNTOLD = [spec.display for spec in STANDARD.specs if cache_role(spec) == ANY_KEYS_UNTOLD]


@pytest.mark.parametrize("is_hot", [True, False])
@pytest.mark.parametrize("name", UNTOLD)
def test_a_command_whose_changes_redis_does_not_tell_is_the_session_s(name: str, is_hot: bool) -> None:
    """The intake lets commands hold as long as their client is there; such a one must hold until it has run."""
    client = Cached()
    if not is_hot:
        client.cache.become_hot((), ())
    client.intake.receive(pack(*name.split(" "), "0", "1"))
    assert [what for what, *_ in client.log] == ["special"]


def test_a_client_that_is_never_answered_from_memory_holds_what_it_may_write() -> None:
    client = Cached()
    client.reads.mask = 0
    client.intake.receive(GET + pack("TTL", "hot"))
    assert client.take_runs() == [(GET + pack("TTL", "hot"), 2)]
    assert client.cache.find(GET, 1.0) is not None
    client.intake.receive(pack("SET", "hot", "2"))
    assert client.cache.begin_fill(b"hot") is None


def test_a_read_that_redis_answers_drops_the_replies_of_its_key() -> None:
    client = Cached()
    client.intake.receive(pack("TTL", "hot"))
    assert client.cache.find(GET, 1.0) is None


def test_a_private_connection_may_hold_state_so_nothing_is_answered_from_memory() -> None:
    client = Cached()
    client.fake_upstream.owner = client.sender
    client.intake.receive(GET)
    assert client.take_runs() == [(GET, 1)]


def test_rules_that_audit_only_count_and_their_reads_hold_nothing() -> None:
    client = Cached()
    client.reads.uses = [audit := CacheUse(2)]
    client.reads.mask = 2
    client.intake.receive(GET * 2)
    assert client.take_runs() == [(GET * 2, 2)]
    assert (audit.hits, audit.audited_hits, audit.audited_bytes) == (0, 2, 14)
    assert client.cache.begin_fill(b"hot") is not None


def test_of_many_or_large_answers_no_more_leave_than_the_client_takes() -> None:
    client = Cached()
    reply = b"$5000\r\n" + b"x" * 5000 + b"\r\n"
    client.keep(GET, reply)

    def taken(data: bytes) -> None:
        client.sent.append(data)
        client.sender.full = len(client.sent) == 2

    client.sender.write = taken
    client.intake.receive(GET * 5)
    assert client.sent == [reply, reply]
    assert client.intake.pending == GET * 3
    client.sender.full = False
    client.intake.resume()
    assert client.sent == [reply] * 5


def test_a_refused_or_judged_read_is_not_answered_from_memory() -> None:
    plan = Plan(len(STANDARD.specs))
    plan.judge_always(command_id("GET"))
    client = Cached(plan)
    client.intake.receive(GET)
    assert client.log == [("special", GET)]


def test_a_value_known_to_be_too_large_is_forwarded() -> None:
    client = Cached()
    client.keep(GET, None)
    for _ in range(2):
        client.intake.receive(GET)
        assert client.take_runs() == [(GET, 1)]
        client.redis_answers(b"$1\r\nv\r\n")
        known = client.cache.find(GET, 1.0)
        assert known is not None
        assert known.resp3 is None
    client.cache.drop(b"hot")
    assert client.cache.find(GET, 1.0) is None


def test_a_transaction_holds_its_keys_from_exec_to_its_reply() -> None:
    client = Cached()
    client.reads.begin_transaction()
    client.sender.begin_unit(client.fake_upstream)
    client.intake.receive(pack("SET", "hot", "1"))
    client.redis_answers(b"+QUEUED\r\n")
    assert client.cache.find(GET, 1.0) is not None, "nothing of it has run"
    client.sender.forward(client.fake_upstream, pack("EXEC"))
    client.sender.end_unit()
    assert not client.reads.end_transaction(client.sender, client.sender.requested)
    assert client.cache.find(GET, 1.0) is None
    assert client.cache.begin_fill(b"hot") is None, "EXEC has not been answered"
    client.redis_answers(b"*1\r\n+OK\r\n")
    assert client.cache.begin_fill(b"hot") is not None


@pytest.mark.parametrize(
    ("queued", "held_back", "untold"),
    [
        ([pack("SET", "x", "1")], False, False),
        ([pack("MOVE", "x", "1")], True, False),
        ([pack("SWAPDB", "0", "1")], False, True),
        ([pack("SET", f"k{number}", "1") for number in range(1100)], True, False),
    ],
)
def test_a_transaction_about_any_key(queued: list[bytes], held_back: bool, untold: bool) -> None:
    client = Cached()
    client.cache.concern(none_fits(frozenset({KeyGlob.of("k*")})))
    client.reads.begin_transaction()
    for raw in queued:
        client.intake.receive(raw)
        client.redis_answers(b"+QUEUED\r\n")
    assert not client.cache.held_back
    assert client.cache.remembered() <= 1
    assert client.reads.end_transaction(client.sender, client.sender.requested + 1) == untold
    assert client.cache.held_back == held_back
    client.reads.begin_transaction()
    assert not client.reads.end_transaction(client.sender, 0), "the next one is another"


def test_a_key_that_becomes_hot_waits_for_what_is_already_sent() -> None:
    client = Cached()
    client.intake.receive(pack("SET", "warm", "1"))
    assert client.cache.begin_fill(b"warm") is not None, "nobody cares about it yet"
    client.cache.become_hot({b"warm"}, [client.sender])
    assert client.cache.begin_fill(b"warm") is None
    client.redis_answers(b"+OK\r\n")
    assert client.cache.begin_fill(b"warm") is not None
    client.sent.clear()
    client.intake.receive(GET)
    assert client.sent == [], "it is not hot any more"


def test_large_answers_behind_a_reply_are_bounded() -> None:
    client = Cached()
    value = b"$600000\r\n" + b"x" * 600_000 + b"\r\n"
    client.memory = ReplyMemory(1 << 24)
    client.keep(GET, value)
    client.intake.receive(pack("GET", "cold") + GET * 10)
    assert client.sender.remembered == 2, "a third would be more than a megabyte"
    assert client.sender.stalled
    client.redis_answers(b"$-1\r\n")
    assert client.sender.remembered == 10
    assert b"".join(client.sent) == b"$-1\r\n" + value * 10


def test_what_was_sent_is_counted_for_its_key_and_with_its_age() -> None:
    client = Cached()
    client.intake.receive(GET * 3)
    assert client.use.ages == 3 * (1.0 - ASKED)
    client.cache.drop(b"hot")
    client.keep(GET, b"$1\r\nw\r\n")
    client.intake.receive(GET * 2)
    assert client.cache.take_touched() == {b"hot": 5}, "also those from before it was forgotten"
    assert client.cache.take_touched() == {}
    client.intake.receive(GET)
    assert client.cache.take_touched() == {b"hot": 1}


def test_what_is_only_audited_is_no_hit_of_its_key() -> None:
    client = Cached()
    client.use.bit = 2
    client.reads.mask = 2
    client.intake.receive(GET)
    assert (client.use.hits, client.use.audited_hits, client.use.ages) == (0, 1, 0.0)
    assert client.cache.take_touched() == {b"hot": 0}


def test_a_key_that_is_only_written_keeps_no_client_that_has_gone() -> None:
    cache, pending = ReplyCache(), [ReplySink() for _ in range(20)]
    for sink in pending:
        sink.requested = sink.pending_replies = 1
        cache.hold(b"k", sink, 1)
    before = sinks()
    for _ in range(500):
        writer = ReplySink()
        cache.hold(b"k", writer, 1)
        writer.gone = True
        del writer
    assert sinks() - before <= len(pending)
    assert cache.holders(b"k") == pending


def sinks() -> int:
    return sum(type(each) is ReplySink for each in gc.get_objects())
