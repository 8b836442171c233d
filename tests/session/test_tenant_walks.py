"""KEYS, DBSIZE and RANDOMKEY of a tenant: Keyrail asks Redis for the tenant's keys, page by page, and answers."""

from __future__ import annotations

import pytest

from proxy.session.ports.pool_key import PoolKey
from proxy.wire.encode import encode_array, encode_bulk
from tests.policy.given import policy as policy_of
from tests.session.given import Client, call
from tests.session.test_tenants import OK, RULES, TenantRoute, begin, route_taken

REFUSED = b"-DENIED keyrail: DBSIZE is not answered: Keyrail walks over the keys of a tenant, and "


def page(cursor: bytes, *names: bytes) -> bytes:
    """A reply to SCAN."""
    return b"*2\r\n" + encode_bulk(cursor) + encode_array(names)


def questions(route: TenantRoute) -> list[list[bytes]]:
    return [list(question) for question in route.asked[-1][1]]


def answer(route: TenantRoute, *frames: bytes) -> None:
    route.asked.pop()[2](list(frames))


def test_dbsize_counts_the_pages_of_a_walk() -> None:
    route, client, upstream = begin()
    client.say("DBSIZE")
    assert questions(route) == [[b"SCAN", b"0", b"MATCH", b"acme:*", b"COUNT", b"500"]]
    client.say("PING")
    assert upstream.taken() == b"", "what comes behind it waits"
    answer(route, page(b"17", b"acme:a", b"acme:acme:b"))
    assert questions(route) == [[b"SCAN", b"17", b"MATCH", b"acme:*", b"COUNT", b"500"]]
    answer(route, page(b"0", b"acme:c"))
    assert client.heard() == b":3\r\n"
    assert upstream.taken() == call("PING")


def test_what_was_written_before_counts() -> None:
    route, client, upstream = begin()
    client.say("SET", "a", 1)
    client.say("DBSIZE")
    assert (upstream.taken(), route.asked) == (call("SET", "acme:a", 1), [])
    upstream.answer(OK)
    answer(route, page(b"0", b"acme:a"))
    assert client.heard() == OK + b":1\r\n"


def test_the_count_of_a_long_walk_answers_for_a_while() -> None:
    route, client, _ = begin()
    client.say("DBSIZE")
    route.moment += 0.5
    answer(route, page(b"0", b"acme:a"))
    for passed in (0.0, 9.0):
        route.moment += passed
        client.say("DBSIZE")
        assert (client.heard()[-4:], route.asked) == (b":1\r\n", [])
    route.moment += 1.0
    Client(route, PoolKey("globex", 0, 2)).say("DBSIZE")
    assert questions(route)[0][3] == b"globex:*"
    answer(route, page(b"0"))
    client.say("DBSIZE")
    answer(route, page(b"0", b"acme:a", b"acme:b"))
    client.say("DBSIZE")
    answer(route, page(b"0"))
    assert client.heard() == b":2\r\n:0\r\n", "a short walk is made each time"


def test_without_time_a_count_that_is_not_too_old_is_told() -> None:
    route, client, _ = begin()
    client.say("DBSIZE")
    answer(route, page(b"0", b"acme:a"))
    for age, told in ((60.0, b":1\r\n"), (0.1, REFUSED + b"it took longer than 2 s; use SCAN")):
        route.moment += age
        client.heard()
        client.say("DBSIZE")
        answer(route, page(b"5"))
        route.timers.pop()()
        assert client.heard().startswith(told)


def test_inside_multi_it_is_refused_and_aborts() -> None:
    route, client, _ = begin()
    for words in (("DBSIZE",), ("RANDOMKEY",), ("KEYS", "*")):
        client.send(call("MULTI") + call(*words) + call("EXEC"))
        sent = b"".join(route_taken(client))
        assert (words[0].encode() in sent, route.asked) == (False, [])
        for upstream in route.all_upstreams():
            if upstream.head is not None:
                upstream.answer(OK, b"-ERR wrong number\r\n", b"-EXECABORT x\r\n")
        heard = client.heard()
        assert heard.startswith(OK + b"-DENIED keyrail: %b is not answered: " % words[0].encode())
        assert (b"it is inside MULTI" in heard, heard.endswith(b"-EXECABORT x\r\n")) == (True, True)


def test_keys_are_found_under_their_own_names() -> None:
    route, client, _ = begin()
    client.say("KEYS", "a*")
    assert questions(route)[0][:4] == [b"SCAN", b"0", b"MATCH", b"acme:a*"]
    answer(route, page(b"3", b"acme:a", b"acme:acme:a"))
    answer(route, page(b"0", b"acme:a"))
    assert client.heard() == encode_array([b"a", b"acme:a"])
    client.say("KEYS", "globex:a")
    assert questions(route) == [[b"EXISTS", b"acme:globex:a"]]
    answer(route, b":0\r\n")
    assert client.heard() == b"*0\r\n"


def test_keys_have_a_budget() -> None:
    tight = RULES.replace("apps: [acme, globex]}", "apps: [acme], walk: {keys: 1, time: 5s, count: 7}}")
    route = TenantRoute(policy_of(tight))
    route.known_users.add("acme")
    client = Client(route, PoolKey("acme", 0, 2))
    client.say("KEYS", "*")
    assert questions(route)[0][4:] == [b"COUNT", b"7"]
    answer(route, page(b"3", b"acme:a", b"acme:b"))
    assert (
        b"KEYS is not answered: Keyrail walks over the keys of a tenant, and more than 1 keys match" in client.heard()
    )
    client.say("DBSIZE")
    answer(route, page(b"0", b"acme:a", b"acme:b"))
    assert client.heard() == b":2\r\n", "nothing of these is kept"


@pytest.mark.parametrize(("protocol", "null"), [(2, b"$-1\r\n"), (3, b"_\r\n")])
def test_randomkey_is_one_of_its_own(protocol: int, null: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    route, client, _ = begin(protocol=protocol)
    others = [encode_bulk(b"globex:acme:a"), null, encode_bulk(b"acme"), b"-ERR x\r\n"] * 4
    client.say("RANDOMKEY")
    assert questions(route) == [[b"RANDOMKEY"]] * 16
    answer(route, *others[:15], encode_bulk(b"acme:acme:a"))
    assert client.heard() == encode_bulk(b"acme:a")
    told = set()
    for chance in (0.0, 0.4, 0.9):
        monkeypatch.setattr(route, "chance", chance.__float__)
        client.say("RANDOMKEY")
        answer(route, *others)
        answer(route, page(b"3", b"acme:a"))
        answer(route, page(b"0", b"acme:b", b"acme:c"))
        told.add(client.heard())
    assert told == {encode_bulk(b"a"), encode_bulk(b"b"), encode_bulk(b"c")}
    client.say("RANDOMKEY")
    answer(route, *others)
    answer(route, page(b"0"))
    assert client.heard() == null


def test_what_redis_says_instead_of_a_page() -> None:
    route, client, _ = begin()
    for error, told in (
        (b"-LOADING Redis is loading\r\n", b"-LOADING Redis is loading\r\n"),
        (b"-NOPERM no SCAN\r\n", REFUSED + b"this user may not run SCAN;"),
    ):
        client.say("DBSIZE")
        answer(route, error)
        assert client.heard().startswith(told)
    client.say("DBSIZE")
    route.asked.pop()[2](None)
    assert client.heard().startswith(REFUSED + b"no connection to Redis could be had for it")


def test_a_client_that_leaves_ends_its_walk() -> None:
    route, client, _ = begin()
    client.say("DBSIZE")
    answered = route.asked.pop()[2]
    client.on_close()
    answered([page(b"7", b"acme:a")])
    assert (route.asked, route.timers) == ([], [])


def test_another_policy_while_it_walks() -> None:
    route, client, _ = begin()
    client.say("DBSIZE")
    route.put_in_force(policy_of(RULES.replace("apps: [acme, globex]}", "apps: [acme], count_age: 1s}")))
    client.adopt()
    answer(route, page(b"0", b"acme:a"))
    assert (client.heard(), client.cause) == (b":1\r\n", None), "its keys are the same"
    client.say("KEYS", "*")
    route.put_in_force(policy_of(RULES.replace("{user}:", "eu:{user}:")))
    client.adopt()
    assert client.cause == "tenant_changed"
    answer(route, page(b"0", b"acme:a"))
    assert client.heard() == b""


def test_the_connection_of_a_pinned_client_carries_the_questions() -> None:
    route, client, _ = begin(protocol=3)
    client.say("CLIENT", "TRACKING", "ON")
    own = client.own
    own.answer(OK)
    own.taken()
    client.send(call("DBSIZE") + call("PING"))
    assert (own.taken(), route.asked) == (call("SCAN", 0, "MATCH", "acme:*", "COUNT", 500), [])
    own.answer(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\nacme:a\r\n" + page(b"9", b"acme:a"))
    run_timers(route)
    assert own.taken() == call("SCAN", 9, "MATCH", "acme:*", "COUNT", 500)
    own.answer(page(b"0", b"acme:b"))
    run_timers(route)
    assert client.heard() == OK + b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n" + b":2\r\n"
    assert own.taken() == call("PING")
    own.answer(b"+PONG\r\n")
    client.heard()
    client.say("RANDOMKEY")
    assert own.taken() == call("RANDOMKEY") * 16
    own.answer(*[encode_bulk(b"acme:a")] * 16)
    run_timers(route)
    assert client.heard() == encode_bulk(b"a")
    client.say("KEYS", "*")
    own.taken()
    client.on_close()
    own.answer(page(b"5", b"acme:a"))
    assert (own.taken(), client.heard()) == (b"", b"")


@pytest.mark.parametrize("words", [("WATCH", "a"), ("SUBSCRIBE", "c"), ("CLIENT", "TRACKING", "ON", "OPTIN")])
def test_it_carries_none_where_it_holds_what_they_could_change(words: tuple[str, ...]) -> None:
    route, client, _ = begin()
    client.say(*words)
    own = client.own
    own.answer(OK if words[0] != "SUBSCRIBE" else b"*3\r\n$9\r\nsubscribe\r\n$6\r\nacme:c\r\n:1\r\n")
    own.taken()
    client.say("DBSIZE")
    assert (own.taken(), len(route.asked)) == (b"", 1)


def run_timers(route: TenantRoute) -> None:
    """What is due at once; the last one is the walk's own limit."""
    for act in list(route.timers)[1:]:
        route.timers.remove(act)
        act()
