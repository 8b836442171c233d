"""HELLO, AUTH, SELECT, RESET, QUIT and the names: a client changes pools only after Redis has accepted the change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.commands.table import Lane
from proxy.session.policy.judging import context_of
from proxy.session.ports.client_identity import UNNAMED, Names
from proxy.session.ports.pool_key import PoolKey
from proxy.session.state import POOLED
from tests.session.given import HOME, Client, FakeRoute, call

OK = b"+OK\r\n"
THREE = PoolKey(None, 0, 3)
ONE = PoolKey(None, 1, 2)


def test_select_moves_on_success_alone() -> None:
    for reply, key in ((OK, ONE), (b"-ERR no\r\n", HOME)):
        route = FakeRoute()
        client = Client(route)
        client.send(call("SELECT", 1) + call("GET", "a"))
        own = client.own
        assert own.taken() == call("SELECT", 1)
        own.answer(reply)
        assert client.heard() == reply
        assert (client.key, own.key) == (key, key)
        assert own.taken() == call("GET", "a")
        own.answer(OK)
        route.lingering[0]()
        assert route.released == [own]


def test_select_of_a_database_that_has_a_pool_is_asked_there() -> None:
    route = FakeRoute()
    there = route.upstream(ONE)
    client = Client(route)
    client.send(call("SELECT", 1) + call("GET", "a"))
    assert there.taken() == call("SELECT", 1)
    there.answer(OK)
    assert there.taken() == call("GET", "a")
    assert route.lent == []


def test_with_a_cluster_upstream_all_nodes_must_have_the_database() -> None:
    route = FakeRoute()
    client = Client(route)
    route.unknown_databases = {1}
    client.send(call("SELECT", 1) + call("GET", "a"))
    assert route.all_upstreams() == []
    route.unknown_databases.clear()
    route.lacking_databases[1] = b"-ERR DB index is out of range\r\n"
    route.feed()
    assert client.heard() == b"-ERR DB index is out of range\r\n"
    assert client.key == HOME
    assert route.upstream().taken() == call("GET", "a")


@pytest.mark.parametrize("number", ["1", "01"])
def test_a_select_that_failed_leaves_the_client_where_it_was(number: str) -> None:
    route = FakeRoute()
    there = route.upstream(ONE)
    client = Client(route)
    client.say("SELECT", number)
    for upstream in route.all_upstreams():
        if upstream.taken():
            upstream.answer(b"-BUSY\r\n")
    client.say("EVAL", "x", 0)
    assert there.taken() == b""
    assert route.upstream(HOME, Lane.SLOW).taken() == call("EVAL", "x", 0)


def test_select_waits_for_replies_pending_elsewhere() -> None:
    route = FakeRoute()
    there = route.upstream(ONE)
    client = Client(route)
    client.send(call("GET", "a") + call("SELECT", 1))
    assert there.taken() == b""
    route.upstream().answer(b"+a\r\n")
    assert there.taken() == call("SELECT", 1)


def test_hello_moves_to_the_pool_of_its_protocol() -> None:
    route = FakeRoute()
    there = route.upstream(THREE)
    client = Client(route)
    client.send(call("HELLO", 3, "SETNAME", "me") + call("CLIENT", "GETNAME"))
    assert there.taken() == call("HELLO", 3)
    there.answer(b"%1\r\n+proto\r\n:3\r\n")
    assert client.heard() == b"%1\r\n+proto\r\n:3\r\n$2\r\nme\r\n"
    assert client.key == THREE


@pytest.mark.parametrize("argv", [["HELLO"], ["HELLO", "4"], ["HELLO", "3", "NOSUCH"], ["HELLO", "x"]])
def test_a_hello_that_changes_nothing_changes_nothing(argv: list[str]) -> None:
    route = FakeRoute()
    client = Client(route)
    client.say(*argv)
    for upstream in route.all_upstreams():
        if upstream.taken():
            upstream.answer(b"-NOPROTO\r\n")
    assert client.heard() == b"-NOPROTO\r\n"
    assert client.key == HOME


@pytest.mark.parametrize("argv", [["AUTH", "ann", "pw"], ["HELLO", "3", "AUTH", "ann", "pw"]])
def test_a_login_never_runs_on_a_shared_upstream(argv: list[str]) -> None:
    for reply, user in ((OK, "ann"), (b"-WRONGPASS\r\n", None)):
        route = FakeRoute()
        for key in (HOME, THREE, PoolKey("ann", 0, 2), PoolKey("ann", 0, 3)):
            route.upstream(key)
        client = Client(route)
        client.say(*argv)
        own = client.own
        assert own.taken() == call(*argv)
        own.answer(reply)
        assert client.key.user == user
        assert own.key == client.key
        assert all(upstream.taken() == b"" for upstream in route.pools.values())
        route.lingering[0]()
        assert (client.state.upstream, route.released) == (None, [own])


def test_auth_with_a_password_alone_is_the_default_user() -> None:
    client = Client(FakeRoute())
    client.say("AUTH", "pw")
    client.own.answer(OK)
    assert client.key.user == "default"


@pytest.mark.parametrize("login", [("AUTH", "ada", "x"), ("HELLO", 2, "AUTH", "ada", "x")])
def test_what_a_user_may_run_is_known_before_its_first_command_is_judged(login: tuple[str | int, ...]) -> None:
    route = FakeRoute()
    route.unknown_users.add("ada")
    client = Client(route)
    client.send(call(*login) + call("SET", "a", "b"))
    own = client.own
    own.taken()
    own.answer(OK)
    assert route.released == [own]
    assert own.taken() == b""
    assert route.waiting_for_user == [client]
    route.unknown_users.clear()
    client.arrived()
    assert route.upstream(PoolKey("ada", 0, 2)).taken() == call("SET", "a", "b")


def test_a_login_lingers_while_something_follows() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("AUTH", "pw")
    own = client.own
    own.answer(OK)
    client.say("CLIENT", "ID")
    own.answer(b":1\r\n")
    route.lingering[0]()
    assert (client.state.upstream, route.released) == (own, [])


def test_reset_returns_to_where_the_listener_begins() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("CLIENT", "SETNAME", "me")
    client.send(call("AUTH", "ann", "pw") + call("SELECT", 3) + call("CLIENT", "ID"))
    own = client.own
    while client.sender.pending_replies:
        own.answer(OK)
    client.heard()
    client.say("RESET")
    for upstream in route.all_upstreams():
        if upstream.taken():
            upstream.answer(b"+RESET\r\n")
    assert client.heard() == b"+RESET\r\n"
    assert (client.key, client.state, client.names.client) == (HOME, POOLED, b"")
    assert own not in route.released


def test_reset_waits_for_what_is_owed() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("GET", "a") + call("RESET") + call("GET", "b"))
    route.upstream().answer(b"+a\r\n")
    assert client.heard() == b"+a\r\n+RESET\r\n"
    assert route.upstream().taken() == call("GET", "a") + call("GET", "b")


@pytest.mark.parametrize(("mode", "heard"), [("OFF", b"+RESET\r\n"), ("SKIP", b"")])
def test_reset_ends_client_reply_off_and_is_answered_unless_it_is_skipped(mode: str, heard: bytes) -> None:
    route = FakeRoute()
    client = Client(route)
    client.set_reply_mode(mode)
    client.say("RESET")
    for upstream in route.all_upstreams():
        if upstream.taken().endswith(call("RESET")):
            upstream.answer(b"+RESET\r\n")
    assert client.heard() == heard
    client.say("GET", "a")
    route.upstream().answer(b"+a\r\n")
    assert client.heard() == b"+a\r\n"


def test_nothing_behind_quit_is_forwarded() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("GET", "a") + call("QUIT") + call("GET", "b"))
    assert route.upstream().taken() == call("GET", "a")
    route.upstream().answer(b"+a\r\n")
    assert client.heard() == b"+a\r\n+OK\r\n"
    assert client.cause == "quit"


def test_names_stay_here_and_are_told_to_a_private_upstream() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("CLIENT", "SETNAME", "me")
    client.say("client", "setinfo", "lib-name", "redis-py")
    client.say("CLIENT", "SETINFO", "LIB-VER", "8.0")
    client.say("CLIENT", "GETNAME")
    assert client.heard() == OK * 3 + b"$2\r\nme\r\n"
    assert route.all_upstreams() == []
    client.say("CLIENT", "ID")
    hidden = (
        call("CLIENT", "SETNAME", "me")
        + call("CLIENT", "SETINFO", "LIB-NAME", "redis-py")
        + call("CLIENT", "SETINFO", "LIB-VER", "8.0")
    )
    assert client.own.taken() == hidden + call("CLIENT", "ID")
    client.own.answer(OK, b"-ERR hidden\r\n", OK, b":5\r\n")
    assert client.heard() == b":5\r\n"


def test_a_library_is_known_where_the_engine_does_not_ask_for_it_and_the_engine_is_not_told_again() -> None:
    route = FakeRoute()
    route.knows_libraries = False
    client = Client(route)
    for words in (("LIB-NAME", "redis-py"), ("LIB-VER", "8.0")):
        client.say("CLIENT", "SETINFO", *words)
        upstream = route.upstream()
        assert upstream.taken() == call("CLIENT", "SETINFO", *words)
        upstream.answer(b"-ERR unknown subcommand\r\n")
    assert client.heard() == b"-ERR unknown subcommand\r\n" * 2, "the engine has the word"
    assert client.shown_names == Names(b"", b"redis-py", b"8.0")
    client.say("BLPOP", "q", 1)
    assert client.own.taken() == call("BLPOP", "q", 1)


def test_the_next_client_of_a_private_upstream_has_its_own_name() -> None:
    route = FakeRoute()
    one, two = Client(route), Client(route)
    one.say("CLIENT", "SETNAME", "one")
    one.say("BLPOP", "q", 1)
    own = one.own
    own.answer(OK, b"*-1\r\n")
    assert route.idle == [own]
    own.taken()
    two.say("BLPOP", "q", 1)
    assert two.own is own
    assert own.taken() == call("CLIENT", "SETNAME", "") + call("BLPOP", "q", 1)


@pytest.mark.parametrize(
    "argv", [["CLIENT", "SETNAME", "a b"], ["CLIENT", "SETINFO", "COLOUR", "red"], ["CLIENT", "GETNAME", "x"]]
)
def test_what_redis_would_refuse_is_asked_of_redis(argv: list[str]) -> None:
    route = FakeRoute()
    client = Client(route)
    client.say(*argv)
    assert route.upstream().taken() == call(*argv)
    assert client.names == UNNAMED


WELCOME = b"%1\r\n+proto\r\n:3\r\n"


@pytest.mark.parametrize("mode", ["OFF", "SKIP"])
@pytest.mark.parametrize(("reply", "user"), [(OK, "ann"), (b"-WRONGPASS no\r\n", None)])
def test_a_login_without_a_reply_is_known_all_the_same(mode: str, reply: bytes, user: str | None) -> None:
    """Rules go by the user: what stands behind the login is judged as whom Redis runs it."""
    client = Client(FakeRoute())
    client.set_reply_mode(mode)
    client.send(call("AUTH", "ann", "x") + call("GET", "a"))
    own = client.own
    off = call("CLIENT", "REPLY", "OFF") if mode == "OFF" else b""
    assert own.taken() == call("CLIENT", "REPLY", "ON")
    own.answer(OK)
    assert own.taken() == call("AUTH", "ann", "x"), "alone: behind an unanswered command it may get no reply"
    own.answer(reply)
    assert (client.key.user, client.heard()) == (user, b"")
    assert own.taken() == off + call("GET", "a")
    assert client.sender.pending_replies == (mode == "SKIP")


def test_what_a_transaction_makes_of_a_client_is_read_from_its_reply() -> None:
    client = Client(FakeRoute())
    client.say("MULTI")
    own = client.own
    client.send(call("SELECT", 2) + call("SELECT", 1) + call("HELLO", 3) + call("EXEC") + call("GET", "a"))
    assert own.taken().endswith(call("EXEC"))
    own.answer(OK, b"+QUEUED\r\n" * 3, b"*3\r\n+OK\r\n-ERR no\r\n" + WELCOME)
    assert client.key == PoolKey(None, 2, 3)
    assert own.taken() == call("GET", "a")
    assert client.heard() == OK + b"+QUEUED\r\n" * 3 + b"*3\r\n+OK\r\n-ERR no\r\n" + WELCOME


@pytest.mark.parametrize("login", [("AUTH", "x"), ("AUTH", "ann", "x"), ("HELLO", 3, "AUTH", "ann", "x")])
def test_inside_a_transaction_nobody_logs_in(login: tuple[str | int, ...]) -> None:
    """If it fails, Redis 7.2 to 8 leave it out of EXEC's array: the next reply would be taken for that of the login."""
    client = Client(FakeRoute())
    client.send(call("MULTI") + call(*login) + call("EXEC"))
    assert b"x" not in client.own.taken().replace(b"exec", b"")
    client.own.answer(OK, b"-ERR wrong number of arguments\r\n", b"-EXECABORT\r\n")
    assert client.heard().startswith(OK + b"-ERR Keyrail: log in outside of the transaction: ")
    assert (client.key, client.route.logins.seen) == (HOME, [])


NAMED = [("CLIENT", "SETNAME", "n"), ("CLIENT", "SETINFO", "LIB-NAME", "l"), ("CLIENT", "SETINFO", "LIB-VER", "v")]


@pytest.mark.parametrize("login", [("AUTH", "x"), ("AUTH", "ann", "x"), ("HELLO", 3, "AUTH", "ann", "x")])
@pytest.mark.parametrize("names", [NAMED[:1], NAMED[1:], NAMED])
def test_a_login_waits_for_the_names_of_its_connection(
    login: tuple[str | int, ...], names: list[tuple[str, ...]]
) -> None:
    client = Client(FakeRoute())
    client.send(b"".join(call(*argv) for argv in (*names, login, ("GET", "a"))))
    assert client.heard() == OK * len(names)
    own = client.own
    assert own.taken() == b"".join(call(*argv) for argv in names)
    for _ in names:
        assert own.taken() == b""
        own.answer(OK)
    assert own.taken() == call(*login)
    own.answer(b"-WRONGPASS no\r\n")
    assert client.heard() == b"-WRONGPASS no\r\n"
    assert client.route.upstream().taken() == call("GET", "a"), "it is who it was"


@pytest.mark.parametrize(
    "hello",
    [
        ["HELLO", 3, "AUTH", "ann", "x", "AUTH", "bob", "x"],
        ["HELLO", 3, "AUTH", "ann", "x", "NOSUCH"],
        ["HELLO", 3, "AUTH", "ann", "x", "SETNAME", "a b"],
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_login_that_may_come_before_an_error_is_not_sent(hello: list[str | int], inside: bool) -> None:
    client = Client(FakeRoute())
    if inside:
        client.say("MULTI")
        client.own.answer(OK)
        client.heard()
    client.say(*hello)
    if inside:
        client.own.answer(b"-ERR wrong number of arguments\r\n")
        assert b"HELLO" not in client.own.taken()
    assert client.heard().startswith(b"-ERR ")
    assert all(upstream.taken() == b"" for upstream in client.route.all_upstreams())


def test_a_login_without_a_password_is_redis_to_refuse() -> None:
    client = Client(FakeRoute())
    client.say("HELLO", 3, "AUTH", "ann")
    client.own.answer(b"-ERR Syntax error in HELLO option 'AUTH'\r\n")
    assert client.heard() == b"-ERR Syntax error in HELLO option 'AUTH'\r\n"
    assert client.key == HOME


def test_behind_another_name_on_its_own_upstream_a_client_waits_for_the_answer() -> None:
    """It may be of another app by then."""
    client = Client(FakeRoute())
    client.say("CLIENT", "ID")
    own = client.own
    own.answer(b":1\r\n")
    client.send(call("CLIENT", "SETNAME", "me") + call("GET", "a"))
    assert own.taken() == call("CLIENT", "ID") + call("CLIENT", "SETNAME", "me")
    own.answer(OK)
    assert (client.names.client, own.taken()) == (b"me", call("GET", "a"))
    own.answer(b"+a\r\n")
    client.set_reply_mode("OFF")
    client.say("CLIENT", "SETNAME", "you")
    assert client.names.client == b"you"


@pytest.mark.parametrize("behind", [b"", b"\0", b"\0x", b"\0" + b"x" * 100])
def test_words_are_read_up_to_a_nul(behind: bytes) -> None:
    """A login or a name that Redis has taken and Keyrail has not seen would be judged as somebody else's."""
    client = Client(FakeRoute())
    hello = call("HELLO", "2", b"AUTH" + behind, "ada", "secret", b"SETNAME" + behind, "me")
    client.send(hello)
    assert client.own.taken() == hello
    client.own.answer(b"*0\r\n")
    assert (client.key.user, client.names.client) == ("ada", b"me")
    client = Client(FakeRoute())
    client.send(call("CLIENT", "SETINFO", b"lib-name" + behind, "mine"))
    assert client.names.library == b"mine"


@settings(max_examples=200)
@given(
    names=st.lists(st.binary(max_size=3) | st.sampled_from([b"default", b"\xff", b"\xfe", b"\\xff"]), min_size=2),
    hello=st.booleans(),
)
def test_users_are_told_apart_by_every_byte_of_their_names(names: list[bytes], hello: bool) -> None:
    """ACL names are bytes, UTF-8 or not: two users never share a pool, an app or a line of evidence."""
    keys = set()
    for name in set(names):
        route = FakeRoute()
        client = Client(route)
        client.say(*(("HELLO", 2, "AUTH", name, "password") if hello else ("AUTH", name, "password")))
        client.own.answer(b"*0\r\n" if hello else b"+OK\r\n")
        assert client.key.user is not None
        assert client.key.user.encode("utf-8", "surrogateescape") == name
        assert context_of(client).user == client.caller().user == client.key.user
        keys.add(client.key)
    assert len(keys) == len(set(names))


@pytest.mark.parametrize("words", [("AUTH", "u", "p"), ("HELLO", "3", "AUTH", "u", "p")])
def test_the_login_of_a_client_that_has_left_is_nobodys(words: tuple[str, ...]) -> None:
    client = Client(FakeRoute())
    client.say(*words)
    own = client.own
    client.connection_lost()
    own.answer(b"+OK\r\n")
    assert client.route.logins.seen == []
    assert client.route.discarded == [own], "nor is its connection anybody's"
