"""A command waits while a rule asks Redis about it, and nothing else does: its client's pending replies still come,
later commands of the client stay behind it, and the answer, a timeout or the client's end ends the wait."""

from itertools import count

import pytest

from proxy.compression.frames import STRING, Codec, pack
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import PoolKey
from tests.policy.given import policy
from tests.session.given import Client, FakeRoute, call, route_with

WHOLE_COLLECTION_COMMANDS = """
rules:
  small: {whole_collections: {max: 3}, mode: %s}
  walk: {keys_by_scan: {keys: 5}, mode: %s}
"""
ENFORCED = WHOLE_COLLECTION_COMMANDS % ("enforce", "enforce")
TOO_LARGE = (
    b"-DENIED keyrail/small: HGETALL would read 4 members of the key 'k' (argument 1 of HGETALL), "
    b"1 more than the limit of 3; "
    b"walk it with HSCAN, or read the fields that you need with HMGET\r\n"
)
SKIPPED = ("small", "enforce", "skipped")


def asked(route: FakeRoute) -> list[bytes]:
    """The current question."""
    return [b" ".join(question) for _, questions, _ in route.asked for question in questions]


def tell(route: FakeRoute, *frames: bytes) -> None:
    """Redis answers the oldest query."""
    _, _, answered = route.asked.pop(0)
    answered(frames)


_hours = count(1)


def begun(rules: str = ENFORCED) -> FakeRoute:
    """A route in an hour of its own: the rules are the same ones in all tests, and remember."""
    route = route_with(rules)
    route.moment = 3600.0 * next(_hours)
    return route


@pytest.fixture
def route() -> FakeRoute:
    return begun()


def test_a_command_waits_for_what_its_rule_asks(route: FakeRoute) -> None:
    client = Client(route)
    client.send(call("GET", "a") + call("HGETALL", "k") + call("GET", "b"))
    upstream = route.upstream()
    assert upstream.taken() == call("GET", "a")
    assert asked(route) == [b"HLEN k"]
    assert client.is_paused()
    upstream.answer(b"$1\r\n1\r\n")
    assert client.heard() == b"$1\r\n1\r\n"
    assert upstream.taken() == b"", "settling does not bring it on"
    tell(route, b":3\r\n")
    assert upstream.taken() == call("HGETALL", "k") + call("GET", "b")
    assert not client.is_paused()
    assert not route.timers


def test_a_refusal_stands_in_its_place(route: FakeRoute) -> None:
    client = Client(route)
    client.send(call("GET", "a") + call("HGETALL", "k") + call("GET", "b"))
    tell(route, b":4\r\n")
    route.upstream().answer(b"$1\r\n1\r\n", b"$1\r\n2\r\n")
    assert client.heard() == b"$1\r\n1\r\n" + TOO_LARGE + b"$1\r\n2\r\n"
    assert route.hits == [("small", "enforce", "refused")]


def test_what_is_remembered_waits_for_nothing(route: FakeRoute) -> None:
    client = Client(route)
    client.say("HGETALL", "known")
    tell(route, b":1\r\n")
    client.send(call("HGETALL", "known") + b"HGETALL known\r\n")
    assert not route.asked
    assert route.upstream().taken() == call("HGETALL", "known") * 3


def test_an_inline_command_waits_too(route: FakeRoute) -> None:
    client = Client(route)
    client.send(b"HGETALL inline\r\nPING\r\n")
    assert asked(route) == [b"HLEN inline"]
    tell(route, b":1\r\n")
    assert route.upstream().taken() == call("HGETALL", "inline") + call("PING")


def test_an_answer_of_the_rule_reaches_the_client(route: FakeRoute) -> None:
    client = Client(route)
    client.send(call("KEYS", "u:*") + call("PING"))
    assert asked(route) == [b"SCAN 0 MATCH u:* COUNT 500"]
    tell(route, b"*2\r\n$1\r\n7\r\n*1\r\n$3\r\nu:1\r\n")
    assert asked(route) == [b"SCAN 7 MATCH u:* COUNT 500"]
    tell(route, b"*2\r\n$1\r\n0\r\n*2\r\n$3\r\nu:1\r\n$3\r\nu:2\r\n")
    assert client.heard() == b"*2\r\n$3\r\nu:1\r\n$3\r\nu:2\r\n"
    assert route.upstream().taken() == call("PING")
    assert route.hits == [("walk", "enforce", "answered")]


def test_other_clients_go_on(route: FakeRoute) -> None:
    waiting, other = Client(route), Client(route)
    waiting.say("HGETALL", "k")
    other.say("GET", "a")
    assert route.upstream().taken() == call("GET", "a")


def test_it_asks_as_the_user_and_in_the_database_of_the_client(route: FakeRoute) -> None:
    key = PoolKey("ada", 3, 3)
    Client(route, key).say("KEYS", "*")
    assert [each[0] for each in route.asked] == [key]


@pytest.mark.parametrize("why", ["time", "no connection"])
def test_without_an_answer_the_rule_says_what_then(route: FakeRoute, why: str) -> None:
    client = Client(route)
    client.send(call("HGETALL", "k") + call("KEYS", "*"))
    for _ in range(2):
        if why == "time":
            route.timers.pop()()
        else:
            route.asked.pop(0)[2](None)
    assert route.upstream().taken() == call("HGETALL", "k")
    route.upstream().answer(b"*0\r\n")
    heard = client.heard()
    assert heard.startswith(b"*0\r\n-DENIED keyrail/walk: KEYS is not answered: ")
    assert (b"it took longer than 2 s" in heard) == (why == "time")
    assert route.hits == [SKIPPED, ("walk", "enforce", "refused")]
    while route.asked:
        tell(route, b":1\r\n")  # too late: nothing comes of it
    assert client.heard() == route.upstream().taken() == b""


def test_no_connection_at_once(route: FakeRoute) -> None:
    client = Client(route)
    route.starving = True
    client.say("KEYS", "*")
    assert client.heard().startswith(b"-DENIED keyrail/walk: ")
    assert not client.is_paused()
    assert not route.timers


def test_nothing_is_asked_inside_multi(route: FakeRoute) -> None:
    client = Client(route)
    client.send(call("MULTI") + call("HGETALL", "k") + call("KEYS", "*"))
    assert not route.asked
    assert route.hits == [SKIPPED, ("walk", "enforce", "refused")]
    client.own.answer(b"+OK\r\n", b"+QUEUED\r\n", b"-ERR wrong number of arguments\r\n")
    assert client.heard().startswith(b"+OK\r\n+QUEUED\r\n-DENIED keyrail/walk: KEYS is not answered: it is inside ")


def test_nothing_is_asked_about_what_is_on_its_way(route: FakeRoute) -> None:
    client = Client(route)
    for command in (call("HGETALL", "k" * 100), call("KEYS", "*" * 100)):
        client.send(command[:50])
        client.send(command[50:])
    assert not route.asked
    first, second = client.heard().splitlines()
    assert b": the key in argument 1 is 100 bytes long, too long to be a name;" in first
    assert second.startswith(b"-DENIED keyrail/walk: KEYS is not answered: its value is on its way")


def test_a_client_that_leaves_ends_it(route: FakeRoute) -> None:
    client = Client(route)
    client.say("KEYS", "*")
    client.close("client")
    assert not route.timers
    tell(route, b"*2\r\n$1\r\n7\r\n*0\r\n")
    assert not route.asked, "the walk does not go on for nobody"
    assert client.heard() == b""


def test_a_transaction_may_begin_behind_it(route: FakeRoute) -> None:
    client = Client(route)
    client.send(call("HGETALL", "k") + call("MULTI") + call("GET", "a") + call("EXEC"))
    tell(route, b":1\r\n")
    assert route.upstream().taken() == call("HGETALL", "k") + call("MULTI") + call("GET", "a") + call("EXEC")


def test_on_a_connection_of_its_own(route: FakeRoute) -> None:
    client = Client(route)
    client.send(call("WATCH", "w") + call("HGETALL", "k"))
    assert client.own.taken() == call("WATCH", "w")
    client.own.answer(b"+OK\r\n")
    tell(route, b":1\r\n")
    assert client.own.taken() == call("HGETALL", "k")
    assert route.asked == []


def test_an_upstream_that_is_away_makes_it_wait_once_more(route: FakeRoute) -> None:
    client = Client(route)
    client.say("HGETALL", "k")
    route.starving = True
    tell(route, b":1\r\n")
    assert not route.asked
    route.feed()
    assert route.upstream().taken() == call("HGETALL", "k")


def test_a_policy_that_comes_into_force_meanwhile_judges_the_next(route: FakeRoute) -> None:
    client = Client(route)
    client.send(call("HGETALL", "k") + call("HGETALL", "k"))
    route.put_in_force(policy("rules: {none: {refuse: [HGETALL], mode: enforce}}"))
    client.adopt()
    tell(route, b":1\r\n")
    assert route.upstream().taken() == call("HGETALL", "k")
    route.upstream().answer(b"*0\r\n")
    assert client.heard().startswith(b"*0\r\n-DENIED keyrail/none: ")


def test_audit_asks_and_nobody_waits() -> None:
    route = begun(WHOLE_COLLECTION_COMMANDS % ("audit", "warn"))
    client = Client(route)
    client.send(call("HGETALL", "k") + call("GET", "a"))
    assert route.upstream().taken() == call("HGETALL", "k") + call("GET", "a")
    route.upstream().answer(b"*0\r\n", b"$-1\r\n")
    client.say("KEYS", "*")
    assert asked(route) == [b"HLEN k", b"SCAN 0 MATCH * COUNT 500"]
    assert route.hits == []
    tell(route, b":4\r\n")
    client.close("client")
    tell(route, b"*2\r\n$1\r\n0\r\n*0\r\n")
    assert route.hits == [("small", "audit", "refused"), ("walk", "warn", "answered")]
    assert client.heard() == b"*0\r\n$-1\r\n"
    assert not client.is_paused()


def test_a_rule_that_fails_while_asking_refuses(route: FakeRoute) -> None:
    client = Client(route)
    client.say("KEYS", "*")
    tell(route, b":1\r\n")  # no reply that SCAN could have
    assert client.heard() == (
        b"-DENIED keyrail/walk: the rule itself failed on this command; tell the owners of this policy\r\n"
    )
    assert route.hits == [("walk", "enforce", "error")]


LARGE = "rules: {large: {replies: {elements: 2}, mode: %s}}"
CAPS = "rules: {caps: {collections: {members: 3, sample: 99%%}, mode: %s}}"


def test_a_reply_is_looked_at_and_passed_on() -> None:
    route = begun(CAPS % "enforce")
    client = Client(route)
    client.send(call("RPUSH", "list", "a", "b") + call("GET", "a"))
    assert route.upstream().taken() == call("RPUSH", "list", "a", "b") + call("GET", "a")
    route.upstream().answer(b":2\r\n", b"$-1\r\n")
    assert client.heard() == b":2\r\n$-1\r\n"
    client.say("RPUSH", "list", "c", "d")
    assert client.heard().startswith(
        b"-DENIED keyrail/caps: the list 'list' (argument 1 of RPUSH) has 2 elements and would get 2 more, "
    )
    assert route.hits == [("caps", "enforce", "refused")]
    assert not route.asked


def test_a_reply_is_looked_at_inside_execs_array() -> None:
    route = begun(CAPS % "enforce")
    client = Client(route)
    client.send(call("MULTI") + call("GET", "a") + call("LPUSH", "queued", "a", "b") + call("EXEC"))
    route.upstream().answer(b"+OK\r\n", b"+QUEUED\r\n" * 2, b"*2\r\n$-1\r\n:3\r\n")
    assert client.heard() == b"+OK\r\n" + b"+QUEUED\r\n" * 2 + b"*2\r\n$-1\r\n:3\r\n"
    client.say("LPUSH", "queued", "c")
    assert client.heard().startswith(b"-DENIED keyrail/caps: the list 'queued' (argument 1 of LPUSH) has 3 elements")


def test_the_reply_to_a_push_that_was_streamed_is_looked_at() -> None:
    route = begun(CAPS % "enforce")
    client = Client(route)
    command = call("RPUSH", "streamed", "a" * 100, "b")
    client.send(command[:60])
    client.send(command[60:])
    assert client.own.taken() == command
    client.own.answer(b":9\r\n")
    assert client.heard() == b":9\r\n"
    client.say("RPUSH", "streamed", "c")
    assert client.heard().startswith(b"-DENIED keyrail/caps: the list 'streamed' (argument 1 of RPUSH) has 9 elements")


def test_an_inspected_reply_that_nobody_waits_for() -> None:
    route = begun(CAPS % "enforce")
    client = Client(route)
    client.send(call("SADD", "set", "a") + call("GET", "a"))
    assert route.upstream().taken() == call("SADD", "set", "a") + call("GET", "a")
    assert asked(route) == [b"SCARD set"]
    tell(route, b":4\r\n")
    client.send(call("SADD", "set", "b") + call("GET", "a"))
    route.upstream().answer(b":1\r\n", b"$-1\r\n")
    assert client.heard().startswith(
        b":1\r\n$-1\r\n-DENIED keyrail/caps: the set 'set' (argument 1 of SADD) has 4 members, 1 more than "
    )
    assert route.upstream().taken() == call("GET", "a")


def test_what_grows_too_large_is_counted_where_it_is_audited() -> None:
    route = begun(CAPS % "audit")
    client = Client(route)
    for _ in range(3):
        client.say("RPUSH", "list", "a")
        route.upstream().answer(b":4\r\n")
    assert client.heard() == b":4\r\n" * 3
    assert route.hits == [("caps", "audit", "refused")] * 2


def test_a_push_trims_its_list() -> None:
    route = begun("rules: {caps: {collections: {members: 3, lists: trim}, mode: enforce}}")
    client = Client(route)
    client.say("RPUSH", "list", "a")
    route.upstream().taken()
    route.upstream().answer(b":4\r\n")
    assert client.heard() == b":4\r\n"
    assert route.upstream().taken() == call("LTRIM", "list", "-3", "-1")
    route.upstream().answer(b"+OK\r\n")
    assert client.heard() == b""
    assert route.hits == [("caps", "enforce", "accompanied"), ("caps", "enforce", "followed")]


@pytest.mark.parametrize("mode", ["audit", "enforce"])
def test_a_large_reply_is_noticed_and_passes(mode: str) -> None:
    route = begun(LARGE % mode)
    client = Client(route)
    client.send(call("LRANGE", "k", "0", "9") + call("GET", "a") + call("MGET", "a", "b"))
    assert route.upstream().taken() == call("LRANGE", "k", "0", "9") + call("GET", "a") + call("MGET", "a", "b")
    replies = (b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", b"$-1\r\n", b"*2\r\n$-1\r\n$-1\r\n")
    for i in range(len(b"".join(replies))):
        route.upstream().answer(b"".join(replies)[i : i + 1])
    assert client.heard() == b"".join(replies)
    assert route.hits == [("large", mode, "noticed")]


@pytest.mark.parametrize(("size", "hits"), [(2000, [("large", "enforce", "noticed")]), (500, [])])
def test_a_compressed_reply_counts_as_large_as_the_client_gets_it(size: int, hits: list[tuple[str, str, str]]) -> None:
    rules = """rules:
      docs: {compress: {keys: ["doc:*"], above: 64B}, mode: enforce}
      large: {replies: {bytes: 1000B, commands: [GET, GETRANGE]}, mode: enforce}
    """
    route = begun(rules)
    client = Client(route)
    stored = pack(bytes(size), STRING, Codec.ZSTD, 3, 64)
    client.say("GET", "doc:1")
    client.say("GETRANGE", "doc:1", 0, 10)
    route.upstream().answer(b"$%d\r\n%b\r\n" % (len(stored), stored), b"$%d\r\n%b\r\n" % (len(stored), stored))
    assert client.heard() == b"$%d\r\n%b\r\n$11\r\n%b\r\n" % (size, bytes(size), bytes(11))
    assert [hit for hit in route.hits if hit[0] == "large"] == hits


class Handing(FakeRoute):
    """A client that waits for a released connection goes on at once, with the scanner that all clients share."""

    def release(self, upstream: PrivatePipeline) -> None:
        super().release(upstream)
        self.request.load([b"somebody else's", b"much longer command", b"x" * 500])


def test_keys_are_counted_although_others_have_come_in_between() -> None:
    rules = "rules: {whole: {whole_collections: {max: 10, unknown: pass}, mode: enforce}}\ntraffic: {count_keys: on}"
    route = Handing(policy(rules))
    route.known_users.add("ann")
    client = Client(route)
    client.say("AUTH", "ann", "x")
    client.own.answer(b"+OK\r\n")
    route.starving = True
    client.say("HGETALL", "k:1")
    assert len(route.released) == 1
    assert [key_count.key for key_count in route.counters.harvest(10).key_counts] == [b"k:1"]
