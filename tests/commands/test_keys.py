"""Keys come from each command's own syntax, never from "the first argument". If they cannot be told they are unknown,
which is not the same as no keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.keys import UNKNOWN_KEYS
from proxy.commands.table import STANDARD
from proxy.wire.request import Request
from tests.commands.invocations import INVOCATIONS, keys_of, split


@pytest.mark.parametrize(("line", "expected"), INVOCATIONS)
def test_keys_of_real_invocations(line: str, expected: str) -> None:
    assert keys_of(split(line)) == expected


@pytest.mark.parametrize(
    "line",
    [
        "ZUNIONSTORE dst two a b",
        "ZUNIONSTORE dst 02 a b",
        "ZUNIONSTORE dst 3 a b",
        "ZUNIONSTORE dst -1 a b",
        "ZUNIONSTORE dst 99999999999999999999 a b",
        "EVAL s 9223372036854775807 a",
        "EVAL s 1",
        "EVAL s '' a",
        "LMPOP 4611686018427387904 a",
        "MSETEX 9999999999 k v",
        "XREAD STREAMS a b 0",
        "XREAD COUNT 2",
        "XREAD STREAMS",
        "MIGRATE h 1 k 0 100 COPY KEYS a b",
        "MIGRATE h 1",
        "GET",
        "SORT",
        "BITFIELD",
        "BITOP",
        "STRALGO LCS KEYS a b",
        "NOSUCH a",
    ],
)
def test_what_cannot_be_told_is_not_none(line: str) -> None:
    command = Command(STANDARD, split(line))
    with pytest.raises(KeysUnknownError):
        _ = command.keys
    assert command.known_keys == ()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("PFMERGE dest", "dest:w"),
        ("EVAL s 0", ""),
        ("EVAL s 0 a", ""),
        ("ZUNIONSTORE d 0", "d:w"),
        ("SCAN 0", ""),
    ],
)
def test_what_names_no_more_is_known(line: str, expected: str) -> None:
    assert keys_of(split(line)) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # The specification looks for the first STREAMS from argument 4 on; Redis's own function for the last STORE
        # takes an option's argument for an option. The command itself does neither, and it is what runs.
        ("XREADGROUP NOACK GROUP g STREAMS STREAMS k >", "k:r"),
        ("XREADGROUP GROUP STREAMS c STREAMS k >", "k:r"),
        ("XREADGROUP GROUP g STREAMS STREAMS k >", "k:r"),
        ("SORT k STORE get STORE x", "k:r x:w"),
        ("SORT k BY store GET store", "k:r"),
        ("SORT k STORE a STORE b", "k:r b:w"),
        ("GEORADIUS k 0 0 1 m STORE storedist STORE x", "k:r storedist:w x:w"),
        ("MIGRATE h 1 '' 0 100 AUTH keys KEYS a b", "a:w b:w"),
        ("MIGRATE h 1 '' 0 100 AUTH2 keys keys KEYS a b", "a:w b:w"),
    ],
)
def test_a_key_cannot_hide_behind_an_argument_that_looks_like_an_option(line: str, expected: str) -> None:
    assert keys_of(split(line)) == expected


@pytest.mark.parametrize(
    ("line", "blocks"),
    [
        ("XREAD BLOCK 0 STREAMS a 0", True),
        ("xread count 2 block 0 streams a 0", True),
        ("XREAD STREAMS a 0", False),
        ("XREAD STREAMS block 0", False),
        ("XREADGROUP GROUP block c COUNT 1 STREAMS a >", False),
        ("XREADGROUP GROUP g c NOACK BLOCK 5 STREAMS a >", True),
        ("XREADGROUP GROUP g c CLAIM 100 BLOCK 5 STREAMS a >", True),
        ("BLPOP a 0", True),
        ("BLMOVE a b LEFT LEFT 0", True),
    ],
)
def test_reading_streams_blocks_only_where_asked(line: str, blocks: bool) -> None:
    request = Request.from_argv(split(line))
    assert STANDARD.keys.blocks(STANDARD.lookup.find(request), request) is blocks


def test_many_keys_and_then_few() -> None:
    for count in (1, 63, 64, 65, 5_000, 40_000):
        argv = [b"DEL", *(b"k%d" % i for i in range(count))]
        assert [key.name for key in Command(STANDARD, argv).keys] == argv[1:]
        assert keys_of([b"GET", b"k"]) == "k:r"
    assert keys_of([b"ZUNION", b"3000", *[b"k"] * 3000]).count("k:r") == 3000
    assert keys_of([b"ZUNION", b"1", b"k"]) == "k:r"


def test_a_module_commands_optional_keyword_hides_no_other_key() -> None:
    reply = [[b"acme.copy", -2, [b"write", b"module"], 0, 0, 0, [], [], [_spec(b"index", 1), _keyword(b"TO")], []]]
    table = STANDARD.completed_by(reply)
    for argv, names in (
        ([b"acme.copy", b"a", b"to", b"b"], [b"a", b"b"]),
        ([b"acme.copy", b"a"], [b"a"]),
        ([b"acme.copy", b"a", b"TO"], [b"a"]),
    ):
        assert [key.name for key in Command(table, argv).keys] == names


def test_a_keyword_may_be_searched_from_the_end() -> None:
    table = STANDARD.completed_by([[b"acme.last", -2, [], 0, 0, 0, [], [], [_keyword(b"ON", -2)], []]])
    argv = [b"acme.last", b"on", b"a", b"on", b"b"]
    assert [key.index for key in Command(table, argv).keys] == [4]
    assert Command(table, [b"acme.last", b"x", b"y"]).keys == ()
    assert Command(table, [b"acme.last"]).known_keys == ()


def _spec(kind: bytes, at: int) -> list[object]:
    search = [b"type", kind, b"spec", [b"index", at]]
    return [b"flags", [b"RO"], b"begin_search", search, b"find_keys", _range()]


def _keyword(word: bytes, start: int = 1) -> list[object]:
    search = [b"type", b"keyword", b"spec", [b"keyword", word, b"startfrom", start]]
    return [b"flags", [b"OW"], b"begin_search", search, b"find_keys", _range()]


def _range() -> list[object]:
    return [b"type", b"range", b"spec", [b"lastkey", 0, b"keystep", 1, b"limit", 0]]


ARGUMENTS = st.sampled_from(
    [b"0", b"1", b"2", b"3", b"k", b"", b"-1", b"STORE", b"STREAMS", b"KEYS", b"GET", b"BLOCK", b"GROUP"]
)


@given(st.sampled_from(STANDARD.specs), st.lists(ARGUMENTS | st.binary(max_size=24), max_size=12))
def test_nothing_that_a_client_sends_raises_or_leaves_the_arguments(spec: object, arguments: list[bytes]) -> None:
    assert isinstance(spec, type(STANDARD.specs[0]))
    argv = [*(word.encode() for word in spec.name.split("|")), *arguments]
    request = Request.from_argv(argv)
    command_id = STANDARD.lookup.find(request)
    found = STANDARD.keys.find(command_id, request)
    assert found == UNKNOWN_KEYS or 0 <= found < max(1, len(argv))
    for i in range(found):
        assert 1 <= STANDARD.keys.indexes[i] < len(argv)
        assert STANDARD.keys.access[i] in (1, 2)


@pytest.mark.parametrize(
    ("argv", "keys"),
    [
        ([b"SORT", b"a", b"STORE\0x", b"b"], [b"a", b"b"]),
        ([b"GEORADIUS", b"a", b"1", b"2", b"3", b"km", b"store\0", b"b"], [b"a", b"b"]),
        ([b"XREAD", b"STREAMS\0", b"a", b"0"], [b"a"]),
        ([b"SORT", b"a", b"STORE x", b"b"], [b"a"]),
    ],
)
def test_an_option_ends_at_a_nul_as_it_does_in_redis(argv: list[bytes], keys: list[bytes]) -> None:
    assert [key.name for key in Command(STANDARD, argv).keys] == keys
