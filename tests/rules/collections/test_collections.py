"""Writes to a collection that is too large are refused until a look-up finds it smaller. Sizes come from replies, from
look-ups in the background, and, after a collection was too large, from a look-up that the client waits for."""

import pytest

from proxy.commands.growth import growth_of
from proxy.commands.table import STANDARD
from proxy.rules.collections.rule import Collections, CollectionsSettings
from proxy.rules.context import Context
from proxy.rules.rule import Binding
from proxy.rules.verdict import PASS, End, InspectReply, Pass, Procedure, Refuse, Surround, Verdict
from tests.rules.given import NO_WORDS, command, context, spec


def collections(members: int | None = 10, streams: int | None = 10, sample: float = 0.99) -> Collections:
    settings = CollectionsSettings(members, streams, sample, 5)
    return settings.bind("caps", NO_WORDS, Binding(STANDARD))


def at(now: float) -> Context:
    found = context()
    found.now = now
    return found


def looked_up(verdict: Verdict, reply: bytes) -> End:
    """The verdict of a procedure of one question."""
    assert isinstance(verdict, Procedure)
    steps = verdict.steps()
    next(steps)
    with pytest.raises(StopIteration) as stop:
        steps.send([reply])
    end: End = stop.value.value
    return end


@pytest.mark.parametrize(
    ("text", "key", "measure", "members"),
    [
        ("HSET k a 1 b 2", b"k", "HLEN", 2),
        ("HINCRBY k f 1", b"k", "HLEN", 1),
        ("RPUSH k a b c", b"k", "LLEN", 3),
        ("LMOVE a b LEFT LEFT", b"b", "LLEN", 1),
        ("SADD k a", b"k", "SCARD", 1),
        ("SMOVE a b m", b"b", "SCARD", 1),
        ("ZADD k NX 1 a", b"k", "ZCARD", 1),
        ("XADD k * a 1 b 2", b"k", "XLEN", 1),
    ],
)
def test_what_grows(text: str, key: bytes, measure: str, members: int) -> None:
    assert growth_of(command(text)) == (key, measure, members)


def test_the_reply_to_a_push_tells_the_length() -> None:
    rule = collections()
    verdict = rule.judge(command("RPUSH k a"), at(0))
    assert isinstance(verdict, InspectReply)
    verdict.at(b":8\r\n")
    assert isinstance(rule.judge(command("RPUSH k a b"), at(1)), InspectReply)
    assert rule.judge(command("RPUSH k a b c"), at(1)) == Refuse(
        b"-DENIED keyrail/caps: the list 'k' (argument 1 of RPUSH) has 8 elements and would get 3 more, "
        b"1 more than the limit of 10; "
        b"remove elements, or split it over several keys\r\n"
    )
    assert isinstance(rule.judge(command("LPUSH other a"), at(1)), InspectReply)


@pytest.mark.parametrize("reply", [b"-WRONGTYPE x\r\n", b":-1\r\n", b":0\r\n", b"+QUEUED\r\n"])
def test_a_reply_that_tells_no_length_is_left(reply: bytes) -> None:
    rule = collections()
    verdict = rule.judge(command("LINSERT k BEFORE a b"), at(0))
    assert isinstance(verdict, InspectReply)
    verdict.at(reply)
    assert isinstance(rule.judge(command("RPUSH k a"), at(1)), InspectReply)


def test_other_writes_are_looked_up_while_they_go_on() -> None:
    rule = collections()
    verdict = rule.judge(command("SADD k a"), at(0))
    assert isinstance(verdict, Procedure)
    assert not verdict.waits
    assert looked_up(verdict, b":10\r\n") is PASS
    verdict = rule.judge(command("SADD k a"), at(1))
    assert looked_up(verdict, b":10\r\n") is PASS, "10 are allowed, and the first write may have come after the look"
    assert looked_up(rule.judge(command("SADD k a"), at(6)), b":11\r\n") == rule.judge(command("SADD k a"), at(7))
    assert isinstance(rule.judge(command("SADD k a"), at(7)), Refuse)


def test_what_was_too_large_is_waited_for_until_it_is_smaller() -> None:
    rule = collections()
    looked_up(rule.judge(command("HSET k f v"), at(0)), b":11\r\n")
    verdict = rule.judge(command("HSET k f v"), at(1000))
    assert isinstance(verdict, Procedure)
    assert verdict.waits
    assert isinstance(looked_up(verdict, b":11\r\n"), Refuse)
    assert isinstance(rule.judge(command("HSET k f v"), at(1001)), Refuse)
    assert looked_up(rule.judge(command("HSET k f v"), at(2000)), b":3\r\n") is PASS
    verdict = rule.judge(command("HSET k f v"), at(3000))
    assert isinstance(verdict, Procedure)
    assert not verdict.waits


def test_a_list_that_is_full_or_was_refused_is_looked_at_before_the_next_push() -> None:
    rule = collections()
    for key, size, push in (("full", b":10\r\n", "RPUSH full a"), ("most", b":9\r\n", "RPUSH most a b")):
        verdict = rule.judge(command(f"RPUSH {key} a"), at(0))
        assert isinstance(verdict, InspectReply)
        verdict.at(size)
        assert isinstance(rule.judge(command(push), at(1)), Refuse)
        verdict = rule.judge(command(push), at(100))
        assert isinstance(verdict, Procedure)
        assert verdict.waits


def test_a_share_of_the_writes_is_looked_up() -> None:
    rule = collections(sample=0.1)
    asked = [isinstance(rule.judge(command(f"SADD k{i} a"), at(0)), Procedure) for i in range(1000)]
    assert 90 <= sum(asked) <= 110


def test_streams_have_a_cap_of_their_own_and_may_trim_themselves() -> None:
    rule = collections(members=None, streams=10)
    assert not rule.touches(spec("HSET"))
    for text in ("XADD k MAXLEN 10 * a 1", "XADD k NOMKSTREAM MAXLEN ~ 10 * a 1", "XADD k MAXLEN = 9 * a 1"):
        assert rule.judge(command(text), at(0)) is PASS
    for text in ("XADD k * MAXLEN 5", "XADD k MAXLEN 11 * a 1", "XADD k MINID 5 * a 1"):
        assert isinstance(looked_up(rule.judge(command(text), at(100)), b":11\r\n"), Refuse), text
        rule = collections(members=None, streams=10)


@pytest.mark.parametrize(
    ("text", "reply", "follows"),
    [
        ("RPUSH k a", b":11\r\n", [[b"LTRIM", b"k", b"-10", b"-1"]]),
        ("LPUSHX k a", b":11\r\n", [[b"LTRIM", b"k", b"0", b"9"]]),
        ("RPUSH k a", b":10\r\n", []),
        ("LPUSH k a", b"-WRONGTYPE x\r\n", []),
    ],
)
def test_a_push_may_trim_its_list(text: str, reply: bytes, follows: list[list[bytes]]) -> None:
    rule = CollectionsSettings(10, trim=True).bind("caps", NO_WORDS, Binding(STANDARD))
    verdict = rule.judge(command(text), at(0))
    assert isinstance(verdict, Surround)
    assert [list(argv) for argv in verdict.conclude(reply, ())] == follows
    assert rule.needs.commands == {"LTRIM"}


def test_a_user_without_ltrim_is_refused_instead() -> None:
    rule = CollectionsSettings(10, trim=True).bind("caps", NO_WORDS, Binding(STANDARD, frozenset()))
    assert isinstance(rule.judge(command("RPUSH k a"), at(0)), InspectReply)


def test_what_redis_does_not_tell_is_skipped() -> None:
    verdict = collections().judge(command("ZADD k 1 a"), at(0))
    assert looked_up(verdict, b"-NOPERM x\r\n") == Pass(skipped="the size is unknown: Redis does not tell this user")
    assert looked_up(collections().judge(command("ZADD k 1 a"), at(0)), b"-WRONGTYPE x\r\n") is PASS


@pytest.mark.parametrize(
    ("text", "questions", "replies", "made"),
    [
        ("SUNIONSTORE d a b", [(b"SCARD", b"a"), (b"SCARD", b"b")], [b":6\r\n", b":5\r\n"], 11),
        ("SUNIONSTORE d a a", [(b"SCARD", b"a")], [b":6\r\n"], 6),
        ("SINTERSTORE d a b", [(b"SCARD", b"a"), (b"SCARD", b"b")], [b":60\r\n", b":5\r\n"], 5),
        ("ZDIFFSTORE d 1 a", [(b"ZCARD", b"a"), (b"SCARD", b"a")], [b"-WRONGTYPE x\r\n", b":11\r\n"], 11),
        ("ZRANGESTORE d a 0 4", [(b"ZCARD", b"a")], [b":600\r\n"], 5),
        ("SORT a GET # GET x:* STORE d", [(name, b"a") for name in (b"LLEN", b"SCARD", b"ZCARD")], [b":6\r\n"] * 3, 12),
    ],
)
def test_what_is_written_whole_is_bounded_by_its_sources(
    text: str, questions: list[tuple[bytes, bytes]], replies: list[bytes], made: int
) -> None:
    verdict = collections().judge(command(text), at(0))
    assert isinstance(verdict, Procedure)
    assert verdict.waits
    steps = verdict.steps()
    assert next(steps) == questions
    with pytest.raises(StopIteration) as stop:
        steps.send(replies)
    if made <= 10:
        assert stop.value.value == PASS
    else:
        fault = f"{text.split(maxsplit=1)[0]} can make a collection of {made} members, ".encode()
        assert fault in stop.value.value.error


def test_what_is_taken_over_has_the_cap_of_its_kind() -> None:
    for members, streams, replies, refused in (
        (10, 20, b":15 :0 :0 :0 :0", True),
        (10, 20, b"-WRONGTYPE -WRONGTYPE -WRONGTYPE -WRONGTYPE :15", False),
        (10, 20, b"-WRONGTYPE -WRONGTYPE -WRONGTYPE -WRONGTYPE :21", True),
        (None, 20, b":15 -WRONGTYPE -WRONGTYPE -WRONGTYPE -WRONGTYPE", False),
        (10, None, b"-WRONGTYPE -WRONGTYPE -WRONGTYPE -WRONGTYPE :21", False),
        (10, 20, b"-WRONGTYPE -WRONGTYPE -WRONGTYPE -WRONGTYPE -WRONGTYPE", False),
    ):
        verdict = collections(members, streams).judge(command("RENAME a b"), at(0))
        assert isinstance(verdict, Procedure)
        steps = verdict.steps()
        next(steps)
        with pytest.raises(StopIteration) as stop:
            steps.send([reply + b"\r\n" for reply in replies.split()])
        assert isinstance(stop.value.value, Refuse) is refused, replies


@pytest.mark.parametrize("text", ["SORT a", "GEORADIUS a 1 2 3 m", "SORT_RO a"])
def test_what_stores_nothing_passes(text: str) -> None:
    rule = collections()
    assert not rule.touches(command(text).spec) or rule.judge(command(text), at(0)) == PASS


def test_where_sources_are_not_known_the_policy_decides() -> None:
    for unknown, expected in ((True, Pass), (False, Refuse)):
        settings = CollectionsSettings(10, 10, unknown=unknown)
        verdict = settings.bind("caps", NO_WORDS, Binding(STANDARD)).judge(command("COPY a b"), at(0))
        assert isinstance(verdict, Procedure)
        assert isinstance(verdict.otherwise("it is inside MULTI"), expected)
        steps = verdict.steps()
        next(steps)
        with pytest.raises(StopIteration) as stop:
            steps.send([b"-NOPERM no\r\n"] * 5)
        assert isinstance(stop.value.value, expected)


@pytest.mark.parametrize(
    ("payload", "members", "streams", "refused"),
    [
        (b"\x02\x0b" + b"\x01a" * 11, 10, None, b"the payload has as many as 11 members, "),
        (b"\x02\x0a" + b"\x01a" * 10, 10, None, b""),
        (b"\x02\x0b" + b"\x01a" * 11, None, 10, b""),
        (b"\x15\x00\x0b", None, 10, b"the payload has as many as 11 entries, "),
        (b"\x15\x00\x0b", 10, 20, b""),
        (b"\x00\x05abcde", 10, 10, b""),
        (b"\x19" + b"x" * 99, None, 10, b"as many as 8800 members, "),
    ],
)
def test_a_payload_has_the_cap_of_what_is_in_it(
    payload: bytes, members: int | None, streams: int | None, refused: bytes
) -> None:
    rule = collections(members, streams)
    assert rule.touches(spec("RESTORE"))
    verdict = rule.judge(command("RESTORE k 0", payload), at(0))
    if refused:
        assert isinstance(verdict, Refuse)
        assert refused in verdict.error
    else:
        assert verdict == PASS
