"""On a listener that asks for a login, a client gets nothing before it, and none of its bytes reach an upstream."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.session.ports.login_port import Credentials, LoginReply
from proxy.session.ports.pool_key import UNAUTHENTICATED, PoolKey
from tests.session.given import HOME, Client, FakeRoute, call, route_with

BEFORE = PoolKey(UNAUTHENTICATED, 0, 2)
OK = b"+OK\r\n"
WRONG = b"-WRONGPASS no\r\n"
NOAUTH = b"-NOAUTH Authentication required.\r\n"
OWN = Credentials(b"default", b"pw", alone=True)
ANN = Credentials(b"ann", b"pw")


def asking(route: FakeRoute | None = None, *, local: bool = False) -> Client:
    """A client that has to log in."""
    route = route or FakeRoute()
    route.logins.local = local
    return Client(route, BEFORE)


@pytest.mark.parametrize(
    "data",
    [
        call("GET", "a"),
        call("SET", "a", "b"),
        b"GET a\r\n",
        call("MULTI"),
        call("SUBSCRIBE", "a"),
        call("BLPOP", "a", 0),
        call("NOSUCH"),
        call("KEYRAIL", "INFO"),
        call("KEYRAIL", "EXPLAIN", "GET", "a"),
        call("CLIENT", "SETNAME", "x"),
        call("CLIENT", "ID"),
        call("MONITOR"),
        call("SELECT", 1),
        call("ACL", "SETUSER", "x", "on", "nopass"),
        call("PSYNC", "?", "-1"),
        call("SCRIPT", "KILL"),
        call("EVAL", "return 1", 0),
        call("SET", "a", "b" * 100),
    ],
)
def test_nothing_reaches_an_upstream_before_the_login(data: bytes) -> None:
    client = asking()
    client.route.upstream()
    client.send(data * 3)
    assert client.heard() == NOAUTH * 3
    assert client.route.lent == []
    assert [upstream.taken() for upstream in client.route.all_upstreams()] == [b""]


def test_rules_are_not_asked_before_the_login() -> None:
    """Whoever has not logged in learns nothing of the policy, and counts nowhere."""
    client = asking(route_with("rules: {none: {refuse: [FLUSHALL], mode: enforce}}"))
    client.say("FLUSHALL")
    assert (client.heard(), client.route.hits) == (NOAUTH, [])


def test_what_stands_behind_a_login_waits_for_it() -> None:
    client = asking()
    client.send(call("AUTH", "ann", "pw") + call("GET", "a"))
    assert (client.heard(), client.route.logins.asked) == (b"", [ANN])
    client.arrived()
    assert client.heard() == b"", "nobody has answered yet"
    client.route.logins.replies[ANN] = LoginReply(OK, "ann")
    client.arrived()
    assert (client.heard(), client.key) == (OK, HOME._replace(user="ann"))
    assert client.route.upstream(client.key).taken() == call("GET", "a")


@pytest.mark.parametrize("argv", [("AUTH", "pw"), ("HELLO", "2", "AUTH", "default", "pw")])
def test_behind_a_refused_login_nothing_runs(argv: tuple[str, ...]) -> None:
    client = asking()
    for login in (OWN, OWN._replace(alone=False)):
        client.route.logins.replies[login] = LoginReply(WRONG)
    client.send(call(*argv) + call("GET", "a") + call("SET", "a", "b"))
    assert client.heard() == WRONG + NOAUTH * 2
    assert (client.key, client.route.all_upstreams()) == (BEFORE, [])


@pytest.mark.parametrize("first", [b"POST / HTTP/1.1\r\n", b"hOsT: localhost\r\n", call("post", "/")])
def test_a_web_page_guesses_no_password(first: bytes) -> None:
    """Redis 7 closes the connection, too."""
    client = asking()
    client.send(call("GET", "a") + first + call("AUTH", "pw") + call("SET", "a", "b"))
    assert (client.heard(), client.cause) == (NOAUTH, "web_request")
    assert client.route.logins.asked == []


@pytest.mark.parametrize("first", ["POST / HTTP/1.1", "hOsT: localhost"])
@pytest.mark.parametrize("rule", ["allow_only: [GET, SET]", 'refuse: [POST, "HOST:"]'])
def test_a_web_page_runs_no_command_where_a_rule_refuses_its_first(rule: str, first: str) -> None:
    """Redis closes the connection at either; a refusal alone would let the body run."""
    client = Client(route_with(f"rules: {{few: {{{rule}, mode: enforce}}}}"))
    client.send(f"{first}\r\nSET hacked 1\r\n".encode())
    assert client.heard().startswith(b"-DENIED keyrail/few: ")
    assert (client.cause, client.route.all_upstreams()) == ("web_request", [])


def test_hello_goes_on_without_its_login() -> None:
    client = asking()
    there = client.route.upstream(PoolKey(None, 0, 3))
    client.route.logins.replies[OWN._replace(alone=False)] = LoginReply(OK)
    client.say("HELLO", 3, "AUTH", "default", "pw", "SETNAME", "me")
    assert there.taken() == call("HELLO", 3)
    there.answer(b"%0\r\n")
    assert (client.heard(), client.names.client, client.key) == (b"%0\r\n", b"me", PoolKey(None, 0, 3))


def test_a_hello_that_has_logged_in_and_waits_is_not_asked_about_again() -> None:
    client = asking()
    client.route.starving = True
    client.route.logins.replies[ANN] = LoginReply(OK, "ann")
    client.say("HELLO", 3, "AUTH", "ann", "pw")
    client.route.known_users.add("ann")
    client.route.feed()
    assert client.own.taken() == call("HELLO", 3)
    assert client.route.logins.asked == [ANN]


def test_reset_logs_out() -> None:
    client = asking()
    client.route.logins.replies[OWN] = LoginReply(OK, None, "reports")
    client.say("AUTH", "pw")
    assert (client.key, client.user_name) == (HOME, "reports")
    client.send(call("RESET") + call("GET", "a"))
    assert client.heard() == OK + b"+RESET\r\n" + NOAUTH
    assert (client.key, client.user_name) == (BEFORE, "default")


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["AUTH"], b"-ERR wrong number of arguments for 'auth' command\r\n"),
        (["AUTH", "a", "b", "c"], b"-ERR syntax error\r\n"),
        (["RESET", "x"], b"-ERR wrong number of arguments for 'reset' command\r\n"),
        (["EXEC"], b"-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n"),
        (["HELLO", "x"], b"-ERR Protocol version is not an integer or out of range\r\n"),
        (["HELLO", "9223372036854775808"], b"-ERR Protocol version is not an integer or out of range\r\n"),
        (["HELLO", "-3"], b"-NOPROTO unsupported protocol version\r\n"),
        (["HELLO", "3", "X\r\n\0y"], b"-ERR Syntax error in HELLO option 'X  '\r\n"),
        (["HELLO", "3", "AUTH", "a"], b"-ERR Syntax error in HELLO option 'AUTH'\r\n"),
        (["HELLO", "3", "SETNAME", "a b"], b"-ERR Client names cannot contain spaces, newlines or special "),
        (["HELLO", "3", "AUTH", "a", "b", "NOSUCH"], b"-ERR Syntax error in HELLO option 'NOSUCH'\r\n"),
        (
            ["HELLO"],
            b"-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> ",
        ),
    ],
)
def test_errors_before_the_login(argv: list[str], error: bytes) -> None:
    client = asking()
    client.say(*argv)
    assert client.heard().startswith(error)
    assert (client.route.logins.asked, client.route.all_upstreams()) == ([], [])


def test_who_names_the_route_s_own_user_shares_its_connections_on_every_listener() -> None:
    route = FakeRoute()
    route.logins.own = b"default"
    route.logins.replies[OWN] = LoginReply(OK)
    client = Client(route)
    client.send(call("GET", "a") + call("AUTH", "pw") + call("GET", "b"))
    route.upstream().answer(b"+a\r\n")
    assert client.heard() == b"+a\r\n" + OK
    assert route.upstream().taken() == call("GET", "a") + call("GET", "b")
    assert (client.key, route.lent) == (HOME, [])


def test_on_a_connection_of_its_own_redis_is_asked_there() -> None:
    """What it holds would be lost, or be somebody else's; its next login is told to whoever remembers."""
    route = FakeRoute()
    route.logins.own = b"default"
    client = Client(route)
    client.say("CLIENT", "ID")
    client.own.answer(b":1\r\n")
    client.say("AUTH", "pw")
    client.own.answer(OK)
    assert (client.key, client.own.key, route.logins.seen) == (HOME, HOME, [("accepted", OWN)])
    client.say("AUTH", "pw")
    client.own.answer(WRONG)
    assert route.logins.seen[1:] == [("refused", OWN)]
    assert route.logins.asked == []


def test_no_login_reaches_redis_where_a_file_decides() -> None:
    """Not of a client with a connection of its own, nor of one that is logged in, nor inside MULTI."""
    client = asking(local=True)
    client.route.logins.replies |= {OWN: LoginReply(OK), ANN: LoginReply(OK, None, "ann")}
    client.say("AUTH", "pw")
    client.say("CLIENT", "ID")
    own = client.own
    own.answer(b":1\r\n")
    own.taken()
    client.say("AUTH", "ann", "pw")
    assert (client.user_name, client.heard()) == ("ann", OK + b":1\r\n" + OK)
    client.say("MULTI")
    own.answer(OK)
    for argv in (("AUTH", "pw"), ("HELLO", "3", "AUTH", "ann", "pw")):
        client.say(*argv)
        own.answer(b"-ERR wrong number of arguments\r\n")
        assert b"log in outside of the transaction" in client.heard()
    assert b"pw" not in own.taken()


@pytest.mark.parametrize("change", ["ACL SETUSER a", "ACL DELUSER a", "ACL LOAD", "CONFIG SET a b"])
def test_a_change_of_users_makes_all_be_asked_again(change: str) -> None:
    """When it is sent, since it may run at any time from then on, and when it is answered: somebody may have logged in
    between the two."""
    route = FakeRoute()
    client = Client(route)
    client.say(*change.split())
    assert route.user_changes == 1
    next(each for each in route.all_upstreams() if each.taken()).answer(OK)
    assert (route.user_changes, client.heard()) == (2, OK)


def test_a_change_of_users_inside_a_transaction_counts_when_it_runs() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("MULTI") + call("ACL", "SETUSER", "a") + call("EXEC"))
    own = client.own
    own.answer(OK, b"+QUEUED\r\n", b"*1\r\n+OK\r\n")
    assert route.user_changes >= 1
    assert client.heard() == OK + b"+QUEUED\r\n*1\r\n+OK\r\n"


_SAID = st.sampled_from(
    [
        call("GET", "a"),
        b"GET a\r\n",
        call("MULTI"),
        call("EXEC"),
        call("BLPOP", "a", 0),
        call("RESET"),
        call("HELLO", 3),
        call("HELLO", 2),
        call("SELECT", 1),
        call("AUTH", "bad"),
        call("AUTH", "ann", "bad"),
        call("HELLO", 3, "AUTH", "ann", "bad"),
        call("HELLO", 3, "AUTH", "ann", "bad", "NOSUCH"),
        call("SET", "a", "b" * 100),
        b"*0\r\n",
    ]
)


@settings(max_examples=300)
@given(said=st.lists(_SAID, max_size=12), sizes=st.lists(st.integers(1, 40), min_size=1), at_once=st.booleans())
def test_whatever_is_said_without_a_right_password_reaches_nobody(
    said: list[bytes], sizes: list[int], at_once: bool
) -> None:
    client = asking()
    client.route.upstream()
    replies = client.route.logins.replies
    refused = {login: LoginReply(WRONG) for login in (OWN._replace(password=b"bad"), ANN._replace(password=b"bad"))}
    replies |= refused if at_once else {}
    data = b"".join(said)
    turn = 0
    while data:
        size = sizes[turn % len(sizes)]
        client.send(data[:size])
        data, turn = data[size:], turn + 1
    for _ in said:
        replies |= refused
        client.arrived()
    sent = [upstream.taken() for upstream in client.route.all_upstreams()]
    assert (client.key, client.route.lent, sent) == (BEFORE, [], [b""])


@pytest.mark.parametrize("on_its_own", [False, True])
def test_who_logs_in_as_the_routes_own_user_is_that_user_for_rules(on_its_own: bool) -> None:
    """Else an app that is matched by this user would have no clients."""
    route, own = FakeRoute(), Credentials(b"bob", b"pw")
    route.logins.own, route.logins.own_name = b"bob", "bob"
    route.logins.replies[own] = LoginReply(OK, None, "bob")
    client = Client(route)
    if on_its_own:
        client.say("CLIENT", "ID")
        client.own.answer(b":1\r\n")
    client.say("AUTH", "bob", "pw")
    if on_its_own:
        client.own.answer(OK)
    assert (client.key.user, client.user_name) == (None, "bob")
    client.say("AUTH", "ann", "pw")
    client.own.answer(OK)
    assert (client.key.user, client.user_name) == ("ann", "ann")
