"""A reply to a tenant is without the prefix, in RESP2 and RESP3; what cannot be its own does not reach it."""

import pytest

from proxy.commands.tenant_commands import ReplyNames
from proxy.tenants.replies import OTHER_FORM, ErrorEdit, stripped
from proxy.wire.encode import encode_array, encode_bulk

P = b"acme:"
NULLS = (b"$-1\r\n", b"*-1\r\n", b"_\r\n")


def names(*of: bytes) -> bytes:
    return encode_array(of)


def test_names_lose_the_prefix_once() -> None:
    assert stripped(ReplyNames.ALL, P, names(P + b"a", P + P, P)) == names(b"a", P, b"")
    assert stripped(ReplyNames.PAGE, P, b"*2\r\n$1\r\n7\r\n" + names(P + b"a")) == b"*2\r\n$1\r\n7\r\n" + names(b"a")
    assert stripped(ReplyNames.FIRST, P, names(P + b"l", P + b"value")) == names(b"l", P + b"value")
    nested = b"*2\r\n$6\r\nacme:z\r\n*1\r\n*2\r\n$6\r\nacme:m\r\n,1.5\r\n"
    assert stripped(ReplyNames.FIRST, P, nested) == nested.replace(b"$6\r\nacme:z", b"$1\r\nz")


@pytest.mark.parametrize("head", [b"*2\r\n*2\r\n%b*2\r\n%b", b"%%2\r\n%b%b"])
def test_streams_of_both_protocols(head: bytes) -> None:
    def reply(first: bytes, second: bytes) -> bytes:
        entries = b"*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$6\r\nacme:f\r\n$6\r\nacme:v\r\n"
        return head % (encode_bulk(first) + entries, encode_bulk(second) + entries)

    assert stripped(ReplyNames.STREAMS, P, reply(P + b"x", P + b"\r\n")) == reply(b"x", b"\r\n")


def test_pairs_lose_the_prefix_of_the_first() -> None:
    assert stripped(ReplyNames.PAIRS, P, b"*2\r\n$6\r\nacme:c\r\n:1\r\n") == b"*2\r\n$1\r\nc\r\n:1\r\n"
    assert stripped(ReplyNames.PAIRS, P, b"*1\r\n$6\r\nacme:c\r\n") == OTHER_FORM


def test_nulls_and_empty_replies_stay() -> None:
    for shape in (ReplyNames.ALL, ReplyNames.FIRST, ReplyNames.STREAMS, ReplyNames.PAGE):
        for null in NULLS:
            assert stripped(shape, P, null) == null
    assert stripped(ReplyNames.ALL, P, b"*0\r\n") == b"*0\r\n"
    assert stripped(ReplyNames.STREAMS, P, b"%0\r\n") == b"%0\r\n"


def test_what_cannot_be_the_tenants_is_dropped() -> None:
    for shape, reply in (
        (ReplyNames.ALL, names(P + b"a", b"globex:b")),
        (ReplyNames.ALL, b":1\r\n"),
        (ReplyNames.PAGE, b"*2\r\n$1\r\n0\r\n" + names(b"acme")),
        (ReplyNames.FIRST, names(b"globex:l", b"v")),
        (ReplyNames.FIRST, b"+OK\r\n"),
        (ReplyNames.STREAMS, b"*1\r\n" + names(P + b"x")),
        (ReplyNames.STREAMS, b"*1\r\n*2\r\n$8\r\nglobex:x\r\n*0\r\n"),
        (ReplyNames.SECTIONS, b"*0\r\n"),
    ):
        assert stripped(shape, P, reply) == OTHER_FORM


def test_errors_quote_the_tenants_own_names() -> None:
    edit = ErrorEdit(P, [b"x", b"y:z", b"k" * 200])
    no_group = b"-NOGROUP No such key '%b' or consumer group 'acme:g' in XREADGROUP with GROUP option\r\n"
    assert edit(no_group % b"acme:y:z") == no_group % b"y:z"
    assert edit(no_group % b"acme:other") == no_group % b"acme:other"
    assert ErrorEdit(P, [b"acme:acme:a"])(no_group % b"acme:acme:acme:a") == no_group % b"acme:acme:a"
    assert ErrorEdit(P, [b"", b"it's"])(no_group % b"acme:") == no_group % b""
    assert ErrorEdit(P, [b"", b"it's"])(no_group % b"acme:it's") == no_group % b"it's"
    old = b"-ERR unknown command `X`, with args beginning with: `%b`, `acme:`, \r\n"
    assert ErrorEdit(P, [b"", b"it`s"])(old % b"acme:it`s") == (old % b"it`s").replace(b"`acme:`", b"``")
    assert ErrorEdit(P, [b"a\r\nb", b"a\0b"])(no_group % b"acme:a  b") == no_group % b"a  b"
    assert ErrorEdit(P, [b"a\0b"])(no_group % b"acme:a") == no_group % b"a"
    cut = b"-ERR unknown command 'X', with args beginning with: 'acme:x' 'acme:%b' \r\n" % (b"k" * 100)
    assert edit(cut) == cut.replace(b"acme:", b"")
    assert edit(b"$6\r\nacme:x\r\n") == b"$6\r\nacme:x\r\n"


def test_tracked_prefixes_lose_the_prefix() -> None:
    for head in (b"*6", b"%3"):
        reply = head + b"\r\n$5\r\nflags\r\n%b$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n%b"
        for told, own in ((b"acme:a", b"a"), (b"acme:", b"")):
            flags = names(b"on", b"acme:bcast")
            frame = stripped(ReplyNames.PREFIXES, P, reply.replace(b"%3", b"%%3") % (flags, names(told)))
            assert frame == reply.replace(b"%3", b"%%3") % (flags, names(own))
        other = reply.replace(b"%3", b"%%3") % (names(), names(b"globex:a"))
        assert stripped(ReplyNames.PREFIXES, P, other) == OTHER_FORM


def test_info_has_no_counts_of_keys_and_commands() -> None:
    text = b"# Server\r\nredis_version:7.0\r\n\r\n# Keyspace\r\ndb0:keys=7\r\n\r\n# Replication\r\nrole:master\r\n"
    own = b"# Server\r\nredis_version:7.0\r\n\r\n# Replication\r\nrole:master\r\n"
    assert stripped(ReplyNames.SECTIONS, b"", encode_bulk(text)) == encode_bulk(own)
    verbatim, shown = b"txt:" + text, b"txt:" + own
    reply = stripped(ReplyNames.SECTIONS, b"", b"=%d\r\n%b\r\n" % (len(verbatim), verbatim))
    assert reply == b"=%d\r\n%b\r\n" % (len(shown), shown)
    assert stripped(ReplyNames.SECTIONS, b"", b"$0\r\n\r\n") == b"$0\r\n\r\n"


def test_info_has_no_fields_that_count_keys() -> None:
    kept = b"# Persistence\r\nloading:0\r\nrdb_last_save_time:1\r\n"
    counts = b"rdb_last_load_keys_loaded:7\r\nrdb_last_load_keys_expired:1\r\nrdb_changes_since_last_save:3\r\n"
    more = b"# Stats\r\nexpired_keys:1\r\nkeyspace_hits:5\r\ntracking_total_keys:2\r\ntracking_total_items:2\r\n"
    told = stripped(ReplyNames.SECTIONS, b"", encode_bulk(kept + counts + b"\r\n" + more + b"total_forks:0\r\n"))
    assert told == encode_bulk(kept + b"\r\n# Stats\r\ntotal_forks:0\r\n")
