"""A request of a tenant has the prefix before each name, and nothing else is changed."""

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.commands.tenant_commands import ScriptTerms
from proxy.tenants.messages import glob_escaped
from proxy.tenants.requests import NotOfferedError, Prefixed, own_prefixed, prefixed
from tests.tenants.invocations import INVOCATIONS, PREFIX, sent

REFUSED = (["SORT", "{l}", "GET"], ["SCAN", "0", "FROM", "1"], ["GET"], ["GET", "{a}", "{b}"], ["DBSIZE", "now"])
WALKED = (["DBSIZE"], ["RANDOMKEY"])
ARITY = b"-ERR wrong number of arguments for '%b' command\r\n"
ERRORS = {b"-ERR syntax error\r\n", ARITY % b"get", ARITY % b"dbsize"}


def edited(*words: str | bytes) -> Prefixed:
    argv = [word if isinstance(word, bytes) else word.encode() for word in words]
    return prefixed(Command(STANDARD, argv), PREFIX.encode())


def error(*words: str | bytes) -> bytes:
    with pytest.raises(NotOfferedError) as refused:
        edited(*words)
    return refused.value.error


def test_the_prefix_stands_before_each_name() -> None:
    for words in INVOCATIONS:
        own, expected = sent(words), sent(words, PREFIX)
        if words[0] == "KEYS":
            expected = [b"KEYS", PREFIX.encode() + own[1]]
        elif words == ["PUBSUB", "CHANNELS"]:
            expected = [*own, b"acme:*"]
        elif words[:3] == ["SCAN", "0", "COUNT"]:
            expected = [*own, b"MATCH", b"acme:*"]
        if words in WALKED:
            assert b"Keyrail walks over a tenant's keys" in error(*own)
        elif words in REFUSED:
            assert error(*own) in ERRORS
        else:
            assert edited(*own).argv == expected


def test_words_are_read_up_to_a_nul_as_redis_reads_them() -> None:
    assert edited("SCAN", "0", b"match\0x", "a*").argv[3] == b"acme:a*"
    assert edited("SORT", "k", b"by\0x", "w_*").argv == [b"SORT", b"acme:k", b"by\0x", b"acme:w_*"]
    assert edited("SORT", "k", "GET", b"#\0").argv[3] == b"acme:#\0"
    assert edited("SORT", "k", "STORE", "a", b"store\0", "b").argv[1:] == [
        *(b"acme:k", b"STORE", b"acme:a", b"store\0", b"acme:b")
    ]


def test_each_match_gets_the_prefix_and_the_last_one_counts() -> None:
    assert edited("SCAN", "0", "MATCH", "a*", "MATCH", "*").argv[2:] == [b"MATCH", b"acme:a*", b"MATCH", b"acme:*"]


def test_an_option_that_only_a_newer_engine_knows_is_refused() -> None:
    assert error("SCAN", "0", "SLOT", "7") == b"-ERR syntax error\r\n"
    assert error("SORT", "k", "NEWER", "w_*") == b"-ERR syntax error\r\n"


def test_unknown_keys_are_not_the_same_as_no_keys() -> None:
    assert b"unknown which arguments" in error("ZUNION", "x", "a")
    assert b"unknown which arguments" in error("XREAD", "STREAMS", "a", "b", "0")


def test_a_name_that_has_not_arrived_whole_is_refused() -> None:
    command = Command(STANDARD, [b"DEL", b"a", b"begin"], None, 2, 100_000)
    with pytest.raises(NotOfferedError, match="100000 bytes, too many for a name"):
        prefixed(command, b"acme:")
    value = Command(STANDARD, [b"SET", b"a", b"begin"], None, 2, 100_000)
    assert prefixed(value, b"acme:").argv == [b"SET", b"acme:a", b"begin"]


def test_glob_characters_of_a_prefix_match_only_themselves() -> None:
    assert glob_escaped(b"a*[b]\\-?:") == rb"a\*\[b\]\\\-\?:"
    assert prefixed(Command(STANDARD, [b"KEYS", b"x*"]), b"a*").argv == [b"KEYS", rb"a\*x*"]


def test_notifications_of_the_server_are_nobodys() -> None:
    assert edited("SUBSCRIBE", "__keyspace@0__:a", "__keyevent@0__:del").argv[1:] == [
        *(b"__keyspace@0__:acme:a", b"__keyevent@0__:del")
    ]
    for pattern in ("__key*__:a", "__keyspace@0?__:*", "__redis__:*"):
        assert b"a pattern of keyspace notifications begins with __keyspace@N__: or" in error("PSUBSCRIBE", pattern)
        assert edited("PUNSUBSCRIBE", pattern).argv[1] == b"acme:" + pattern.encode()
    assert edited("SSUBSCRIBE", "__keyspace@0__:a").argv[1] == b"acme:__keyspace@0__:a"
    long = Command(STANDARD, [b"SUBSCRIBE", b"begin"], None, 1, 100_000)
    with pytest.raises(NotOfferedError, match="the name in argument 1 is too long"):
        prefixed(long, b"acme:")
    assert prefixed(Command(STANDARD, [b"PSUBSCRIBE", b"*"]), b"eu-1:").argv == [b"PSUBSCRIBE", rb"eu\-1:*"]


def test_tracked_prefixes_begin_with_the_tenants() -> None:
    for words, more in (
        ("ON", ()),
        ("ON NOLOOP REDIRECT 7", ()),
        ("ON BCAST", ("PREFIX", "acme:")),
        ("OFF", ()),
        ("ON OPTIN", ()),
        ("WHAT", ()),
    ):
        own = ["CLIENT", "TRACKING", *words.split()]
        assert edited(*own).argv == [word.encode() for word in (*own, *more)]
    asked = edited("client", "tracking", "on", b"prefix\0", "a", "bcast", "PREFIX", "acme:")
    assert asked.argv[3:] == [b"prefix\0", b"acme:a", b"bcast", b"PREFIX", b"acme:acme:"]
    overlap = b"-ERR Prefix '%b' overlaps with an existing prefix '%b'. Prefixes for a single\r\n"
    assert asked.edit is not None
    assert asked.edit(overlap % (b"acme:a", b"acme:acme:")) == overlap % (b"a", b"acme:")
    assert asked.edit(b"+OK\r\n") == b"+OK\r\n"
    for words in ("ON PREFIX", "ON NEWER a", "ON REDIRECT"):
        assert error("CLIENT", "TRACKING", *words.split()) == b"-ERR syntax error\r\n"


def test_handshakes_of_libraries_get_the_errors_that_they_go_on_after() -> None:
    assert error("CLIENT", "KILL", "ID", "7").startswith(b"-DENIED ")
    assert edited("CLIENT", "MAINT_NOTIFICATIONS", "ON").edit is None


def test_a_script_of_keyrails_own_has_its_declared_keys_only() -> None:
    script = Command(STANDARD, [b"EVAL", b"return 1", b"1", b"k", b"100"])
    assert own_prefixed(script, b"acme:").argv == [b"EVAL", b"return 1", b"1", b"acme:k", b"100"]
    assert prefixed(script, b"acme:", ScriptTerms.TRUST).argv == [b"EVAL", b"return 1", b"1", b"acme:k", b"100"]
    unknown = Command(STANDARD, [b"EVAL", b"return 1", b"2", b"k"])
    with pytest.raises(NotOfferedError, match="unknown which arguments"):
        prefixed(unknown, b"acme:", ScriptTerms.TRUST)
    flush = Command(STANDARD, [b"SCRIPT", b"FLUSH"])
    with pytest.raises(NotOfferedError, match="not offered to tenants"):
        prefixed(flush, b"acme:", ScriptTerms.TRUST)
    with pytest.raises(NotOfferedError, match="only the script knows"):
        prefixed(script, b"acme:")
