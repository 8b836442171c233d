"""Formats of values: real ones of each are recognised, in every command that writes values, and nothing else is."""

import itertools
import pickle
import pickletools
import random

import pytest

from proxy.commands.table import STANDARD
from proxy.rules.lowering import Lowering
from proxy.rules.rule import Wording
from proxy.rules.values.formats import FORMATS, OPCODES
from proxy.rules.values.rule import Values, ValuesSettings
from proxy.rules.verdict import PASS, Refuse
from tests.conftest import seeds
from tests.policy.given import problems
from tests.rules.given import BINDING, NO_WORDS, command, context, streamed

OBJECTS = (None, True, 7, "ada", [1, "b"], {"user": {"id": 1, "tags": ("a", "b")}}, b"x" * 70_000, "y" * 70_000, {1, 2})
PICKLES = [pickle.dumps(each, protocol) for each in OBJECTS for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]
JAVA = bytes.fromhex("aced0005740003616461")
"""The string "ada"."""
PHP = (
    b'a:1:{s:4:"user";i:1;}',
    b"a:0:{}",
    b'O:8:"stdClass":1:{s:1:"a";i:1;}',
    b'C:11:"ArrayObject":21:{x:i:0;a:0:{};m:a:0:{}}',
    b'E:10:"Suit:Clubs";',
    b's:3:"ada";',
)
OTHERS = (
    b"",
    b"a",
    b"a:",
    b"a:1",
    b"a:1:",
    b"a:x:{}",
    b"a:1:[]",
    b"a:1:{",
    b"a:-1:{}",
    b"a:12345678901:{}",
    b"s:3:ada;",
    b's:3:"ada"',
    b"user:1:{tag}",
    b"i:7;",
    b"b:1;",
    b"N;",
    b'{"a":1}',
    b"\x80",
    b"\x80\x02",
    b"\x80\x02.",
    b"\x80\x01K\x01.",
    b"\x80\x06K\x01.",
    b"\x80\x05K\x01",
    b"\x80\x05\xff.",
    b"\xac\xed",
    b"\xac\xed\x00\x04",
    b"x\xac\xed\x00\x05",
    b"\x81\xa1a\x01",  # MessagePack
    b"\x1f\x8b\x08\x00",  # gzip
)


def rule(*formats: str, wording: Wording = NO_WORDS) -> Values:
    return ValuesSettings(formats or tuple(FORMATS)).bind("formats", wording, BINDING)


def refuses(value: bytes, *formats: str) -> bool:
    return isinstance(rule(*formats).judge(command("SET k", value), context()), Refuse)


def test_the_error_says_what_the_value_is() -> None:
    assert rule().judge(command("SET k", pickle.dumps([1])), context()) == Refuse(
        b"-DENIED keyrail/formats: the value in argument 2, for the key 'k' (argument 1 of SET), is a pickle of "
        b"Python; write JSON, MessagePack or another format of data only\r\n"
    )
    told = rule(wording=Wording("it runs code", "use JSON")).judge(command("MSET a b c", JAVA), context())
    assert told == Refuse(
        b"-DENIED keyrail/formats: the value in argument 4, for the key 'c' (argument 3 of MSET), is a serialised "
        b"object of Java, and it runs code; use JSON\r\n"
    )


def test_each_format_is_recognised_and_no_other() -> None:
    for name, values in (("pickle", PICKLES), ("java", [JAVA]), ("php", PHP)):
        for value in values:
            assert {each for each in FORMATS if refuses(value, each)} == {name}, value[:40]
            assert {each for each in FORMATS if FORMATS[each].fits(value[:64], False)} == {name}, value[:40]
    assert [value for value in OTHERS if refuses(value)] == []
    for protocol in (0, 1):  # which have no beginning of their own
        assert not refuses(pickle.dumps([1], protocol))


def test_no_value_of_a_format_begins_in_another_way_than_plans_know() -> None:
    rests = [each[2:] for each in (*PICKLES, JAVA, *PHP)]
    for fits, (firsts, seconds) in ((each.fits, each.opening) for each in FORMATS.values()):
        for first, second in itertools.product(range(256), repeat=2):
            if first not in firsts or second not in seconds:
                assert not any(fits(bytes((first, second)) + rest, False) for rest in rests[:: len(PICKLES) - 1])


def test_all_opcodes_are_known() -> None:
    assert frozenset(ord(each.code) for each in pickletools.opcodes) == OPCODES


@pytest.mark.parametrize("seed", seeds(3))
def test_few_random_values_are_taken_for_one(seed: int) -> None:
    chance = random.Random(seed)
    assert sum(refuses(chance.randbytes(chance.randrange(200))) for _ in range(20_000)) <= 1


@pytest.mark.parametrize(
    "text",
    [
        *("SET k V", "SET k V EX 5", "SETEX k 5 V", "PSETEX k 5 V", "SETNX k V", "GETSET k V", "APPEND k V"),
        *("MSET a b k V", "MSETNX a b k V", "MSETEX 2 a b k V EX 5", "SETRANGE k 0 V"),
        *("HSET k a b f V", "HSET k V b", "HMSET k f V", "HSETNX k f V", "HSETEX k FIELDS 1 f V"),
        *("LPUSH k a V", "RPUSH k V", "LPUSHX k V", "RPUSHX k V", "LSET k 0 V", "LINSERT k BEFORE a V"),
        *("SADD k a V", "ZADD k 1 V", "ZINCRBY k 1 V", "GEOADD k 1 1 V", "XADD k * f V", "SMOVE a k V"),
    ],
)
def test_every_command_that_writes_values_is_looked_at(text: str) -> None:
    for value in (pickle.dumps({"a": 1}), JAVA, PHP[0]):
        name, *words = [value if word == "V" else word.encode() for word in text.split()]
        found = command(name.decode(), *words)
        assert rule().touches(found.spec)
        assert isinstance(rule().judge(found, context()), Refuse), text


def test_what_is_no_beginning_of_a_value_passes() -> None:
    for found in (
        command("SETRANGE k 7", JAVA),
        command("GET", JAVA),
        command("SET", JAVA, b"v"),
        command("RESTORE k 0", JAVA),
        command("SETBIT k 7 1"),
        command("BITFIELD k SET u8 0 1"),
        command("SET k"),
    ):
        assert not rule().touches(found.spec) or rule().judge(found, context()) is PASS


def test_the_beginning_of_a_streamed_value_is_enough() -> None:
    for value in (*PICKLES, JAVA, *PHP):
        found = streamed([b"SET", b"k", value[:64]], 2, 1 << 21)
        assert isinstance(rule().judge(found, context()), Refuse)
    assert rule().judge(streamed([b"SET", b"k", b"\x80\x05"], 2, 1 << 21), context()) is PASS
    later = streamed([b"MSET", b"a", b"x", b"b", PICKLES[-1][:64]], 2, 1 << 21)
    later.further = {4: 1 << 20}
    assert isinstance(rule().judge(later, context()), Refuse)


def test_a_plan_passes_commands_whose_values_stand_in_fixed_places() -> None:
    judged = set()
    for each in filter(rule().touches, STANDARD.specs):
        lowering = Lowering(each)
        rule().lower(each, lowering)
        if lowering.settled:
            judged.add(each.name)
    assert judged == {"SETRANGE", "MSETEX", "SETBIT", "BITFIELD", "RESTORE", "RESTORE-ASKING"}
    touched = {each.name for each in STANDARD.specs if rule().touches(each)}
    assert {"SET", "GETSET", "MSET", "HSET", "LPUSH", "SADD", "ZADD", "XADD", "SETEX"} <= touched
    assert not {"GET", "DEL", "EXPIRE", "INCR"} & touched


def test_mistakes_are_named_with_their_place() -> None:
    for said, expected in (
        ("{}", "rules.f.values.refuse: found nothing, expected formats such as [pickle, java, php]"),
        ("{refuse: [pickel]}", "rules.f.values.refuse[0]: found 'pickel', expected one of pickle, java, php"),
        ("{refuse: [php, php]}", "rules.f.values.refuse[1]: found 'php', expected a value that php does not cover"),
        ("{refuse: []}", "rules.f.values.refuse: found an empty list, expected a list such as [A, B]"),
        ("{allow: [php]}", "rules.f.values.allow: found an unknown key, expected one of refuse"),
    ):
        assert any(expected in each for each in problems(f"rules: {{f: {{values: {said}}}}}")), said
    assert problems("rules: {f: {values: {refuse: php}}}") == []
