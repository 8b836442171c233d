"""Every key of every command is checked against the standard, reads and writes separately; the error names the argument
and its fault, and never repeats the key."""

import pytest

from proxy.commands.command import KeysUnknownError
from proxy.rules.names.rule import NamesSettings, Naming
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Wording
from proxy.rules.verdict import PASS, Refuse
from tests.rules.given import BINDING, NO_WORDS, command, context, spec, streamed

STANDARD_NAMES = NamesSettings(
    characters="printable-ascii", max_length=20, min_segments=2, max_segments=3, empty_segments=False
)


def said(settings: NamesSettings, text: str, *more: bytes, wording: Wording = NO_WORDS) -> str:
    verdict = Naming("names", settings, wording, BINDING).judge(command(text, *more), context())
    if verdict == PASS:
        return ""
    assert isinstance(verdict, Refuse)
    assert verdict.error.startswith(b"-DENIED keyrail/names: ")
    assert verdict.error.endswith(b"\r\n")
    assert b"\r" not in verdict.error[:-2]
    return verdict.error[23:-2].decode()


@pytest.mark.parametrize("key", [b"user:1", b"user:1:name", b"a:b", b"{user}:1", b"12345678901234567:90"])
def test_a_good_name_passes(key: bytes) -> None:
    assert said(STANDARD_NAMES, "GET", key) == ""


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        (b"john_email", "has 1 segment, and the policy requires 2 to 3, separated by ':'"),
        (b"a:b:c:d", "has 4 segments, and the policy requires 2 to 3, separated by ':'"),
        (b"user::1", "has an empty segment between its ':'"),
        (b"user:", "has an empty segment between its ':'"),
        (b":1", "has an empty segment between its ':'"),
        (b"user:1 2", "contains a space at offset 6, which is not printable-ascii"),
        (b"user:\xc3\xa9", "contains the byte 0xc3 at offset 5, which is not printable-ascii"),
        (b"user:\r\n", "contains the byte 0x0d at offset 5, which is not printable-ascii"),
        (b"user:" + b"x" * 16, "is 21 bytes long, 1 more than the limit of 20"),
        (b"", "is 0 bytes long, 1 less than the minimum of 1"),
    ],
)
def test_a_bad_name_is_refused_with_its_fault(key: bytes, fault: str) -> None:
    instead = "name it with 2 to 3 segments separated by ':', printable-ascii characters, at most 20 bytes"
    shown = Refusals("", NO_WORDS, BINDING).shown(key)
    assert said(STANDARD_NAMES, "GET", key) == f"the key {shown} (argument 1 of GET) {fault}; {instead}"


def test_the_authors_words_are_used() -> None:
    wording = Wording("nobody finds it again", "name it domain:entity:id")
    error = said(STANDARD_NAMES, "GET data", wording=wording)
    assert error.endswith("', and nobody finds it again; name it domain:entity:id")


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("MGET a:1 a:2 bad", 3),
        ("MSET a:1 v bad v", 3),
        ("DEL a:1 bad", 2),
        ("EVAL return 2 a:1 bad not-a-key", 4),
        ("XREAD COUNT 1 STREAMS a:1 bad 0 0", 5),
        ("ZUNIONSTORE a:1 2 a:2 bad", 4),
        ("OBJECT ENCODING bad", 2),
        ("SORT a:1 STORE bad", 3),
        ("BITOP AND a:1 a:2 bad", 4),
    ],
)
def test_every_key_counts_and_nothing_else_does(text: str, argument: int) -> None:
    assert said(STANDARD_NAMES, text).startswith(f"the key 'bad' (argument {argument} of ")
    assert said(STANDARD_NAMES, text.replace("bad", "a:9")) == ""


def test_channels_are_not_keys() -> None:
    naming = Naming("names", STANDARD_NAMES, NO_WORDS, BINDING)
    assert not naming.touches(spec("PUBLISH"))
    assert not naming.touches(spec("SPUBLISH"))
    assert naming.touches(spec("GET"))


def test_reads_and_writes_are_apart() -> None:
    writes = NamesSettings(min_segments=2, reads=False)
    assert said(writes, "GET bad") == ""
    assert said(writes, "SET bad v") != ""
    assert said(writes, "COPY bad a:1") == ""
    assert said(writes, "COPY a:1 bad").startswith("the key 'bad' (argument 2 of COPY) ")
    reads = NamesSettings(min_segments=2, writes=False)
    assert said(reads, "GET bad") != ""
    assert said(reads, "SET bad v") == ""


def test_a_key_that_is_streamed_is_too_long_to_be_a_name() -> None:
    naming = Naming("names", NamesSettings(), NO_WORDS, BINDING)
    with pytest.raises(KeysUnknownError, match="is 2097152 bytes long, too long to be a name"):
        naming.judge(streamed([b"SET", b"a:1", b"v"], 1, 2**21), context())


def test_a_value_that_is_streamed_is_no_name() -> None:
    naming = Naming("names", STANDARD_NAMES, NO_WORDS, BINDING)
    assert naming.judge(streamed([b"SET", b"a:1", b""], 2, 2**21), context()) == PASS


@pytest.mark.parametrize(
    ("characters", "good", "bad"),
    [
        ("any", b"\x00 \xff", None),
        ("printable-utf8", "é:1".encode(), b"a b"),
        ("printable-ascii", b"\"'`\\~!", b"\x7f"),
        ("unquoted-ascii", b"a@b+c", b"it's"),
        ("unslashed-ascii", b"a@b+c", b"../c"),
        ("word-ascii", b"{a}/b_c-d.e:1", b"a@b"),
    ],
)
def test_the_named_sets_of_characters(characters: str, good: bytes, bad: bytes | None) -> None:
    settings = NamesSettings(characters=characters)
    assert said(settings, "GET", good) == ""
    if bad is not None:
        assert f", which is not {characters}; " in said(settings, "GET", bad)


def test_segments_are_described_as_they_are() -> None:
    assert NamesSettings(min_segments=2, max_segments=2).segments == "2"
    assert NamesSettings(min_segments=2).segments == "2 or more"
    assert "is 0 bytes long" in said(NamesSettings(), "GET", b"")
    assert said(NamesSettings(min_length=2), "GET a").startswith("the key 'a' (argument 1 of GET) is 1 byte long, 1")


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("SORT a:l GET report:*", 3),
        ("SORT_RO a:l LIMIT 0 9 by nosort get # GET rep*", 10),
        ("sort a:l by * alpha", 3),
        ("SORT a:l GET a:* STORE a:x BY report:h->*", 7),
        ("SORT a:l GET a:* GET #", 0),
        ("SORT a:l BY report GET get", 0),
    ],
)
def test_what_sort_looks_up_may_not_be_of_others(text: str, argument: int) -> None:
    foreign = NamesSettings(prefixes=(("reports", ("report:",)),))
    refused = f" (argument {argument} of SORT" in said(foreign, text)
    assert refused == bool(argument)


def test_what_sort_looks_up_begins_with_an_own_prefix() -> None:
    own = NamesSettings(prefixes=(("default", ("a:", "b:")),))
    assert said(own, "SORT a:l GET b:*->f") == ""
    assert said(own, "SORT a:l GET a*").startswith("the pattern 'a*' (argument 3 of SORT) may lead to")
    assert said(NamesSettings(writes=True, reads=False, prefixes=own.prefixes), "SORT a:l GET c:*") == ""
    large = streamed([b"SORT", b"a:l", b"GET", b""], 3, 1 << 21)
    assert isinstance(Naming("names", own, NO_WORDS, BINDING).judge(large, context()), Refuse)
