"""Rules that ask Redis before they decide: their commands, and their verdicts for each reply. `answered` stands for
Redis and for the code that runs the procedure."""

from collections.abc import Callable, Sequence

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.commands.whole_collection_commands import WHOLE_COLLECTION_COMMANDS
from proxy.rules.keys_by_scan.rule import KeysByScan, KeysByScanSettings
from proxy.rules.rule import Binding, Wording
from proxy.rules.verdict import PASS, Answer, End, Pass, Procedure, Refuse, Verdict
from proxy.rules.whole_collections.rule import WholeCollections, WholeCollectionsSettings
from tests.rules.given import BINDING, NO_WORDS, command, context, streamed

Redis = Callable[[Sequence[bytes]], bytes]


def run(verdict: Verdict, redis: Redis) -> tuple[End, list[str]]:
    """The verdict of a procedure, and the questions that it has asked."""
    assert isinstance(verdict, Procedure)
    steps = verdict.steps()
    asked: list[str] = []
    replies: list[bytes] | None = None
    while True:
        try:
            questions = next(steps) if replies is None else steps.send(replies)
        except StopIteration as stop:
            end: End = stop.value
            return end, asked
        asked += [b" ".join(question).decode() for question in questions]
        replies = [redis(question) for question in questions]


# Whole collections


def wholes(most: int = 3, unknown: bool = True, wording: Wording = NO_WORDS) -> WholeCollections:
    settings = WholeCollectionsSettings(tuple(WHOLE_COLLECTION_COMMANDS), most, 5, unknown)
    return WholeCollections("wholes", settings, wording, Binding(STANDARD))


@pytest.mark.parametrize(
    ("text", "asked", "size"),
    [
        ("HGETALL k", ["HLEN k"], 3),
        ("HKEYS k", ["HLEN k"], 3),
        ("SMEMBERS k", ["SCARD k"], 3),
        ("LRANGE k 0 -1", ["LLEN k"], 3),
        ("ZREVRANGE k 0 -1", ["ZCARD k"], 3),
        ("XRANGE k - +", ["XLEN k"], 3),
        ("SUNION k l", ["SCARD k", "SCARD l"], 6),
        ("SINTER k l", ["SCARD k", "SCARD l"], 3),
        ("SDIFFSTORE d k l", ["SCARD k", "SCARD l"], 6),
        ("ZUNION 2 k l", ["ZCARD k", "SCARD k", "ZCARD l", "SCARD l"], 6),
    ],
)
def test_the_size_of_each_collection_is_asked(text: str, asked: list[str], size: int) -> None:
    end, questions = run(wholes(size).judge(command(text), context()), lambda _: b":3\r\n")
    assert (end, questions) == (PASS, asked)
    end, _ = run(wholes(size - 1).judge(command(text), context()), lambda _: b":3\r\n")
    assert isinstance(end, Refuse)
    assert b" would read %d members" % size in end.error
    assert b", 1 more than the limit of %d; " % (size - 1) in end.error


def test_a_span_with_an_end_that_asks_for_too_much_is_no_way_around() -> None:
    end, asked = run(wholes(5).judge(command("LRANGE k 0 99999"), context()), lambda _: b":9\r\n")
    assert isinstance(end, Refuse)
    assert asked == ["LLEN k"]
    end, _ = run(wholes(5).judge(command("LRANGE k 0 6"), context()), lambda _: b":100\r\n")
    assert isinstance(end, Refuse)
    assert b" would read 7 members of the key 'k' (argument 1 of LRANGE), 2 more than the limit of 5; " in end.error
    end, _ = run(wholes(5).judge(command("LRANGE k 0 6"), context()), lambda _: b":4\r\n")
    assert end is PASS
    assert wholes(5).judge(command("LRANGE k 0 4"), context()) is PASS


def test_a_size_is_remembered_for_a_while_and_by_database() -> None:
    rule = wholes()
    now, later, other = context(), context(), context()
    later.now += 5
    other.database = 1
    run(rule.judge(command("HGETALL k"), now), lambda _: b":9\r\n")
    assert isinstance(rule.judge(command("HVALS k"), now), Refuse)
    assert isinstance(rule.judge(command("HGETALL k"), later), Procedure)
    assert isinstance(rule.judge(command("HGETALL k"), other), Procedure)
    end, asked = run(rule.judge(command("HGETALL k"), later), lambda _: b":1\r\n")
    assert (end, asked) == (PASS, ["HLEN k"])
    assert rule.judge(command("HGETALL k"), later) is PASS


def test_a_key_of_another_type_passes_to_its_error() -> None:
    rule = wholes()
    end, _ = run(rule.judge(command("HGETALL k"), context()), lambda _: b"-WRONGTYPE Operation\r\n")
    assert end is PASS
    assert isinstance(rule.judge(command("SMEMBERS k"), context()), Procedure), "what HLEN says is nothing to SCARD"


def test_sorted_sets_and_sets_are_measured_by_what_they_are() -> None:
    def redis(question: Sequence[bytes]) -> bytes:
        return b":9\r\n" if question[0] == b"SCARD" else b"-WRONGTYPE Operation\r\n"

    end, _ = run(wholes().judge(command("ZUNION 1 plain"), context()), redis)
    assert isinstance(end, Refuse)


@pytest.mark.parametrize("reply", [b"-NOPERM this user has no permissions\r\n", b"-LOADING Redis is loading\r\n"])
def test_an_unknown_size_is_skipped_or_refused(reply: bytes) -> None:
    given = command("HGETALL k")
    end, _ = run(wholes().judge(given, context()), lambda _: reply)
    assert end == Pass(skipped="the size is unknown: Redis does not tell this user")
    end, _ = run(wholes(unknown=False).judge(given, context()), lambda _: reply)
    assert isinstance(end, Refuse)
    verdict = wholes().judge(given, context())
    assert isinstance(verdict, Procedure)
    assert verdict.otherwise("it is inside MULTI") == Pass(skipped="the size is unknown: it is inside MULTI")


# KEYS


def keys(settings: KeysByScanSettings | None = None) -> KeysByScan:
    return (settings or KeysByScanSettings()).bind("keys", NO_WORDS, BINDING)


def scan(pages: Sequence[Sequence[bytes]]) -> Redis:
    """A SCAN that gives these pages, numbered as its cursors."""

    def redis(question: Sequence[bytes]) -> bytes:
        assert question[0] == b"SCAN"
        page = int(question[1])
        cursor = b"%d" % ((page + 1) % len(pages))
        names = b"".join(b"$%d\r\n%b\r\n" % (len(name), name) for name in pages[page])
        return b"*2\r\n$%d\r\n%b\r\n*%d\r\n%b" % (len(cursor), cursor, len(pages[page]), names)

    return redis


def test_keys_walks_to_the_end_and_tells_each_key_once() -> None:
    end, asked = run(keys().judge(command("KEYS *"), context()), scan([[b"a", b"b"], [], [b"b", b"\xff\r\n"]]))
    assert end == Answer(b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$3\r\n\xff\r\n\r\n")
    assert asked == [f"SCAN {page} MATCH * COUNT 500" for page in range(3)]
    end, _ = run(
        keys(KeysByScanSettings(keys=2, bytes=2)).judge(command("KEYS *"), context()), scan([[b"a", b"b"]] * 9)
    )
    assert end == Answer(b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"), "a name that is told again costs nothing"


def test_a_pattern_for_one_name_is_looked_up() -> None:
    end, asked = run(keys().judge(command("KEYS name"), context()), lambda _: b":1\r\n")
    assert (end, asked) == (Answer(b"*1\r\n$4\r\nname\r\n"), ["EXISTS name"])
    end, _ = run(keys().judge(command("KEYS name"), context()), lambda _: b":0\r\n")
    assert end == Answer(b"*0\r\n")


@pytest.mark.parametrize("pattern", [b"a*", b"a?c", b"[ab]", b"a\\*"])
def test_a_pattern_goes_to_redis_as_it_is(pattern: bytes) -> None:
    _, asked = run(keys().judge(command("KEYS", pattern), context()), scan([[]]))
    assert asked == [f"SCAN 0 MATCH {pattern.decode()} COUNT 500"]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (KeysByScanSettings(keys=2), b"more than 2 keys match"),
        (KeysByScanSettings(bytes=2), b"the names that match have more than 2 bytes"),
    ],
)
def test_past_a_budget_it_is_refused(settings: KeysByScanSettings, why: bytes) -> None:
    verdict = keys(settings).judge(command("KEYS *"), context())
    end, _ = run(verdict, scan([[b"a", b"b"], [b"c"], [b"d"]]))
    assert end == Refuse(b"-DENIED keyrail/keys: KEYS is not answered: " + why + b"; use SCAN with MATCH and COUNT\r\n")


def test_an_error_is_redis_own() -> None:
    for text in ("KEYS *", "KEYS name"):
        end, _ = run(keys().judge(command(text), context()), lambda _: b"-BUSY no\r\n")
        assert end == Answer(b"-BUSY no\r\n")
        end, _ = run(keys().judge(command(text), context()), lambda _: b"-NOPERM no\r\n")
        assert isinstance(end, Refuse), "the client has sent neither SCAN nor EXISTS"
        assert b"this user may not run" in end.error


def test_where_nothing_can_be_asked_keys_is_refused() -> None:
    verdict = keys(KeysByScanSettings(time=7)).judge(command("KEYS *"), context())
    assert isinstance(verdict, Procedure)
    assert verdict.seconds == 7
    refused = verdict.otherwise("it is inside MULTI")
    assert isinstance(refused, Refuse)
    assert b"KEYS is not answered: it is inside MULTI; " in refused.error


def test_a_wrong_number_of_arguments_is_for_redis_to_refuse() -> None:
    assert keys().judge(command("KEYS"), context()) is PASS
    assert keys().judge(command("KEYS a b"), context()) is PASS
    given: Command = streamed([b"KEYS", b""], 1, 1 << 21)
    assert isinstance(keys().judge(given, context()), Procedure)
