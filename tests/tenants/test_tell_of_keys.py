"""Channels on which Redis tells of keys, and messages there, in both protocols: without the prefix, and no other's."""

from proxy.tenants.messages import full_channel, full_pattern, message_edit
from proxy.wire.encode import encode_array

HEADS = (b"*", b">")
edit = message_edit(b"eu-1:")


def test_the_prefix_stands_inside_a_channel_about_a_key() -> None:
    for channel, full in (
        (b"__keyspace@0__:cart:1", b"__keyspace@0__:acme:cart:1"),
        (b"__keyspace@12__:", b"__keyspace@12__:acme:"),
        (b"__keyevent@0__:expired", b"__keyevent@0__:expired"),
        (b"__redis__:invalidate", b"__redis__:invalidate"),
        (b"__keyspace@x__:a", b"acme:__keyspace@x__:a"),
        (b"__keyspace@0__a", b"acme:__keyspace@0__a"),
        (b"__redis__:invalidate2", b"acme:__redis__:invalidate2"),
        (b"news", b"acme:news"),
    ):
        assert full_channel(channel, b"acme:") == full


def test_patterns_may_name_keys_only_behind_a_whole_beginning() -> None:
    for pattern, full in (
        (b"__keyspace@0__:cart:*", rb"__keyspace@0__:eu\-1:cart:*"),
        (b"__keyspace@*__:*", rb"__keyspace@*__:eu\-1:*"),
        (b"__keyevent@*__:expired", b"__keyevent@*__:expired"),
        (b"__keyevent@0__:*", b"__keyevent@0__:*"),
        (b"__key*__:*", b"__key*__:*"),
        (b"__key*@*__:*", b"__key*@*__:*"),
        (b"__key*@0__:*", b"__key*@0__:*"),
        (b"__key*", b"__key*"),
        (b"__keyspace@*", b"__keyspace@*"),
        (b"*", rb"eu\-1:*"),
        (b"_[_]key*", rb"eu\-1:_[_]key*"),
        (rb"\__keyspace@0__:*", rb"eu\-1:\__keyspace@0__:*"),
    ):
        assert full_pattern(pattern, rb"eu\-1:") == full
    for pattern in (
        b"__keyspace@?__:a",
        b"__key*__:a*",
        b"__keyspace@0*:a",
        b"__keyspac*:x",
        b"__redis__:*",
        b"__key[s]*",
    ):
        assert full_pattern(pattern, rb"eu\-1:") is None


def test_messages_and_confirmations_lose_the_prefix() -> None:
    for head in HEADS:
        for full, own in (
            ((b"message", b"eu-1:c", b"eu-1:text"), (b"message", b"c", b"eu-1:text")),
            ((b"smessage", b"eu-1:c", b"text"), (b"smessage", b"c", b"text")),
            ((b"smessage", b"eu-1:__keyspace@0__:a", b"text"), (b"smessage", b"__keyspace@0__:a", b"text")),
            ((b"pmessage", rb"eu\-1:*", b"eu-1:c", b"text"), (b"pmessage", b"*", b"c", b"text")),
            ((b"subscribe", b"eu-1:c", b"n"), (b"subscribe", b"c", b"n")),
            ((b"punsubscribe", rb"eu\-1:*", b"n"), (b"punsubscribe", b"*", b"n")),
            ((b"message", b"globex:c", b"text"), None),
        ):
            frame = b"" if own is None else head + encode_array(own)[1:]
            assert edit(head + encode_array(full)[1:]) == frame
        for null in (b"$-1\r\n", b"_\r\n"):
            frame = head + b"3\r\n$11\r\nunsubscribe\r\n" + null + b":0\r\n"
            assert edit(frame) == frame


def test_what_redis_tells_of_keys() -> None:
    by_key, by_event = b"__keyspace@0__:eu-1:a", b"__keyevent@0__:del"
    for head in HEADS:
        for full, own in (
            ((b"subscribe", by_key, b"n"), (b"subscribe", b"__keyspace@0__:a", b"n")),
            ((b"unsubscribe", by_event, b"n"), (b"unsubscribe", by_event, b"n")),
            ((b"psubscribe", rb"__keyspace@*__:eu\-1:*", b"n"), (b"psubscribe", b"__keyspace@*__:*", b"n")),
            ((b"psubscribe", b"__key*__:*", b"n"), (b"psubscribe", b"__key*__:*", b"n")),
            ((b"message", by_key, b"del"), (b"message", b"__keyspace@0__:a", b"del")),
            ((b"message", by_event, b"eu-1:eu-1:a"), (b"message", by_event, b"eu-1:a")),
            ((b"message", by_event, b"eu-1:"), (b"message", by_event, b"")),
            ((b"message", by_event, b"globex:a"), None),
            ((b"message", by_event, b"eu-1"), None),
            ((b"message", b"__keyspace@0__:globex:a", b"del"), None),
            ((b"message", b"__keyspace@0__:x__:eu-1:a", b"del"), None),
            ((b"pmessage", b"__key*__:*", by_key, b"del"), (b"pmessage", b"__key*__:*", b"__keyspace@0__:a", b"del")),
            ((b"pmessage", b"__key*__:*", by_event, b"eu-1:a"), (b"pmessage", b"__key*__:*", by_event, b"a")),
            ((b"pmessage", b"__key*__:*", by_event, b"globex:eu-1:a"), None),
            ((b"pmessage", b"__key*", b"__keys of somebody", b"text"), None),
            ((b"pmessage", rb"__keyspace@0__:eu\-1:*", b"__keyspace@0__:globex:a", b"set"), None),
            ((b"message", b"__redis__:invalidate", b"eu-1:a"), None),
        ):
            frame = b"" if own is None else head + encode_array(own)[1:]
            assert edit(head + encode_array(full)[1:]) == frame, full


def test_invalidations_name_the_tenants_own_keys() -> None:
    push, message = b">2\r\n$10\r\ninvalidate\r\n", b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
    for head in (push, message):
        for names, own in (
            ([b"eu-1:a"], [b"a"]),
            ([b"eu-1:eu-1:a", b"globex:a", b"eu-1:"], [b"eu-1:a", b""]),
            ([b"globex:eu-1:a"], None),
            ([], None),
        ):
            assert edit(head + encode_array(names)) == (b"" if own is None else head + encode_array(own))
        for null in (b"_\r\n", b"*-1\r\n", b"$-1\r\n"):
            assert edit(head + null) == head + null, "all keys"
    assert message_edit(b"")(push + encode_array([b"a"])) == b"", "who has no prefix has no keys"
    broken = b">2\r\n$21\r\ntracking-redir-broken\r\n:7\r\n"
    assert edit(broken) == broken


def test_no_name_of_another_tenant_passes_at_any_place() -> None:
    other = b"globex:eu-1:secret"
    for names in (
        *((word, other, b"text") for word in (b"message", b"smessage", b"subscribe", b"ssubscribe", b"unknown")),
        *((b"pmessage", pattern, other, b"text") for pattern in (b"__key*", b"__key*__:*", rb"eu\-1:*", b"*")),
        *((b"psubscribe", pattern, b"1") for pattern in (other, rb"globex\:*", b"__keyspace@0__:" + other)),
        (b"message", b"__keyevent@0__:del", other),
        (b"message", b"__redis__:invalidate", other),
        (b"invalidate", other),
    ):
        for head in HEADS:
            assert edit(head + encode_array(names)[1:]) == b"", names


def test_what_has_another_form_is_dropped() -> None:
    word = b"*2\r\n$7\r\nmessage\r\n"
    for frame in (b"*0\r\n", b"*1\r\n:1\r\n", word + b":1\r\n", b">1\r\n$10\r\ninvalidate\r\n"):
        assert edit(frame) == b""
