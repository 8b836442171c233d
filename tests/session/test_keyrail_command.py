"""KEYRAIL …: Keyrail answers it, in order among Redis's replies, and never forwards it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session.given import HOME, Client, FakeRoute, call, route_with

INFO = {"age": 0.5, "version": "1", "ready": True, "features_off": ["x"], "reason": None}
RULES = {
    "age": 0.5,
    "rules": [{"rule": "walks", "hits": {"audit refused": 3}, "apps": {"reports": {"out_of": 7}}}, {"rule": "other"}],
}


def test_answered_in_its_place_while_redis_sees_nothing_of_it() -> None:
    route = FakeRoute()
    route.group_infos["info"] = INFO
    client = Client(route)
    client.send(call("GET", "a") + call("keyrail", "Info") + b"KEYRAIL HELP\r\n" + call("GET", "b"))
    upstream = route.upstream()
    assert upstream.taken() == call("GET", "a") + call("GET", "b")
    assert client.heard() == b""
    upstream.answer(b"$1\r\n1\r\n", b"$1\r\n2\r\n")
    heard = client.heard()
    info = b"*10\r\n$3\r\nage\r\n$3\r\n0.5\r\n$7\r\nversion\r\n$1\r\n1\r\n$5\r\nready\r\n:1\r\n"
    info += b"$12\r\nfeatures_off\r\n*1\r\n$1\r\nx\r\n$6\r\nreason\r\n$-1\r\n"
    assert heard.startswith(b"$1\r\n1\r\n" + info + b"*")
    assert b"\r\n+KEYRAIL <subcommand> [<arg> ...]. Subcommands are:\r\n+" in heard
    assert heard.endswith(b"+    Print this help.\r\n$1\r\n2\r\n")


def test_maps_in_resp3() -> None:
    route = FakeRoute()
    route.group_infos |= {"info": INFO, "rules": RULES}
    client = Client(route, HOME._replace(protocol=3))
    client.say("KEYRAIL", "INFO")
    assert client.heard() == (
        b"%5\r\n$3\r\nage\r\n,0.5\r\n$7\r\nversion\r\n$1\r\n1\r\n$5\r\nready\r\n#t\r\n"
        b"$12\r\nfeatures_off\r\n*1\r\n$1\r\nx\r\n$6\r\nreason\r\n_\r\n"
    )
    client.say("KEYRAIL", "RULES")
    heard = client.heard()
    assert b"walks" in heard
    assert b"reports" not in heard, "all rules in short"
    client.say("KEYRAIL", "RULES", "walks")
    assert b"reports" in client.heard(), "one rule with all that is known"
    client.say("KEYRAIL", "RULES", "no-such\r\nrule")
    assert client.heard() == b"-ERR no rule 'no-such  rule' in this policy. Try KEYRAIL RULES.\r\n"


def test_the_schema_and_whose_a_key_is() -> None:
    route = route_with("""
        schema:
          cart: {key: "cart:{user:int}", ttl: {max: 1h, required: true}, about: open basket}
          user: {key: "user:{id}"}
        rules: {ttl: {schema: ttl, mode: off}}
        """)
    client = Client(route, HOME._replace(protocol=3))
    client.say("KEYRAIL", "SCHEMA", "cart:42")
    cart = (
        b"%4\r\n$5\r\ntitle\r\n$4\r\ncart\r\n$5\r\nabout\r\n$11\r\nopen basket\r\n"
        b"$3\r\nkey\r\n$15\r\ncart:{user:int}\r\n"
        b"$3\r\nttl\r\n%2\r\n$3\r\nmax\r\n:3600\r\n$8\r\nrequired\r\n#t\r\n"
    )
    assert client.heard() == cart
    client.say("KEYRAIL", "SCHEMA")
    assert client.heard() == (
        b"%1\r\n$7\r\nentries\r\n*2\r\n" + cart + b"%2\r\n$5\r\ntitle\r\n$4\r\nuser\r\n$3\r\nkey\r\n$9\r\nuser:{id}\r\n"
    )
    client.say("KEYRAIL", "SCHEMA", "cart:x")
    assert client.heard() == (
        b"-ERR no entry of the schema owns this key. The nearest is cart (cart:{user:int}). Try KEYRAIL SCHEMA.\r\n"
    )
    client.say("KEYRAIL", "SCHEMA", "zz")
    assert client.heard() == b"-ERR no entry of the schema owns this key. Try KEYRAIL SCHEMA.\r\n"


@pytest.mark.parametrize("pooling", [True, False])
def test_what_is_not_known_yet_is_waited_for(pooling: bool) -> None:
    route = FakeRoute(pooling=pooling)
    client = Client(route)
    client.send(call("KEYRAIL", "RULES") + call("GET", "a"))
    assert client.heard() == b""
    route.group_infos["rules"] = RULES
    route.feed()
    assert client.heard().startswith(b"*4\r\n$3\r\nage\r\n")
    assert client.sender.pending_replies == 1, "and what came behind it went on"


def test_no_answer_from_the_supervisor_is_said() -> None:
    route = FakeRoute()
    route.group_infos["rules"] = {}
    client = Client(route)
    client.say("KEYRAIL", "RULES")
    assert client.heard() == b"-ERR Keyrail: its supervisor does not answer; try again\r\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["KEYRAIL"], b"-ERR wrong number of arguments for 'keyrail' command\r\n"),
        (["KEYRAIL", "HELP", "x"], b"-ERR wrong number of arguments for 'keyrail|help' command\r\n"),
        (["KEYRAIL", "SCHEMA", "x", "y"], b"-ERR wrong number of arguments for 'keyrail|schema' command\r\n"),
        (["KEYRAIL", "RULES", "x", "y"], b"-ERR wrong number of arguments for 'keyrail|rules' command\r\n"),
        (["Keyrail", "fOO"], b"-ERR unknown subcommand 'fOO'. Try KEYRAIL HELP.\r\n"),
        (["Keyrail", "\r\n+OK"], b"-ERR unknown subcommand '  +OK'. Try KEYRAIL HELP.\r\n"),
    ],
)
def test_mistakes_get_redis_own_words(words: list[str], error: bytes) -> None:
    route = FakeRoute()
    client = Client(route)
    client.say(*words)
    assert client.heard() == error
    assert route.all_upstreams() == []


@pytest.mark.parametrize("protocol", [2, 3])
def test_explain(protocol: int) -> None:
    rules = "rules:\n  walks: {refuse: [KEYS]}\n  lazy: {replace: {DEL: UNLINK}}\n"
    route = route_with(f"defaults: {{mode: enforce}}\n{rules}")
    client = Client(route, HOME._replace(protocol=protocol))
    client.say("KEYRAIL", "EXPLAIN", "DEL", "a\r\nb")
    heard = client.heard()
    assert heard.startswith(b"*6\r\n")
    assert b"rewrites it to UNLINK" in heard
    assert b"a\r\nb" not in heard
    client.say("KEYRAIL", "EXPLAIN", "KEYS", "*")
    assert b"to the client: -DENIED keyrail/walks" in client.heard()
    client.say("KEYRAIL", "EXPLAIN")
    assert client.heard() == b"-ERR wrong number of arguments for 'keyrail|explain' command\r\n"
    assert route.all_upstreams() == []
    assert not route.hits, "nothing is counted"


def test_before_a_login_nothing_is_told() -> None:
    route = FakeRoute()
    route.strangers = True
    route.group_infos["info"] = INFO
    client = Client(route)
    client.say("KEYRAIL", "INFO")
    assert client.heard() == b"-NOAUTH Authentication required.\r\n"


def test_inside_multi_it_is_refused_and_the_transaction_fails() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("MULTI")
    client.own.answer(b"+OK\r\n")
    client.say("KEYRAIL", "RULES")
    client.own.answer(b"-ERR wrong number of arguments for 'get' command\r\n")
    assert client.heard().startswith(b"+OK\r\n-ERR Keyrail: KEYRAIL RULES inside MULTI is not supported")


def test_while_subscribed_in_resp2_it_is_refused_as_redis_would() -> None:
    route = FakeRoute()
    route.group_infos["info"] = INFO
    client = Client(route)
    client.say("SUBSCRIBE", "news")
    client.own.answer(b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
    client.heard()
    client.say("KEYRAIL", "INFO")
    assert client.heard().startswith(b"-ERR Can't execute 'keyrail|info': only (P|S)SUBSCRIBE")


@pytest.mark.parametrize(
    ("listed", "refused"),
    [("KEYRAIL", {"INFO", "RULES", "HELP"}), ("KEYRAIL RULES", {"RULES"})],
)
def test_a_policy_can_refuse_them(listed: str, refused: set[str]) -> None:
    route = route_with(f"defaults: {{mode: enforce}}\nrules:\n  closed: {{refuse: [{listed}]}}\n")
    route.group_infos |= {"info": INFO, "rules": RULES}
    client = Client(route)
    for subcommand in ("INFO", "RULES", "HELP"):
        client.say("KEYRAIL", subcommand)
        assert client.heard().startswith(b"-DENIED keyrail/closed: ") == (subcommand in refused), subcommand


_NAMES = ("KEYRAIL", "CONFIG", "CLIENT", "GET", "MY.OWN")
_SUBCOMMANDS = ("HELP", "EXPLAIN", "HOTKEYS", "INFO", "PATTERNS", "POLICY", "RULES", "SCHEMA", "SLOTS", "SET", "NOSUCH")
_JOINTS = ("|", " ", "  ", "\t", "\0", "\r\n", "")
_OPTIONS = ("COUNT", "WINDOW", "BY", "w\u0131ndow", "60", "\u0663", "reads", "-1", "", "\ud800", "GET", "user:1")


@st.composite
def _requests(draw: st.DrawFn) -> list[bytes]:
    """Words of KEYRAIL and of others, apart or joined by what joins words elsewhere, with odd arguments."""
    name, subcommand = draw(st.sampled_from(_NAMES)), draw(st.sampled_from(_SUBCOMMANDS))
    words = draw(st.sampled_from(([name, subcommand], [name + draw(st.sampled_from(_JOINTS)) + subcommand], [name])))
    words = [draw(st.sampled_from((word, word.lower(), word + "\0", " " + word, word + "x" * 70))) for word in words]
    words += draw(st.lists(st.sampled_from((*_OPTIONS, *_NAMES, *_SUBCOMMANDS)), max_size=4))
    return [word.encode("utf-8", "surrogatepass") for word in words]


@settings(max_examples=600)
@given(request=_requests(), inside=st.booleans())
def test_whatever_words_come_keyrail_answers_its_own_and_leaves_the_rest_to_redis(
    request: list[bytes], inside: bool
) -> None:
    route = FakeRoute()
    route.group_infos |= {each: {"age": 0.1} for each in ("info", "policy", "hotkeys", "patterns", "slots")}
    route.group_infos["rules"] = RULES
    client = Client(route)
    if inside:
        client.say("MULTI")
        client.own.answer(b"+OK\r\n")
        client.own.taken()
        client.heard()
    client.send(call(*request))
    sent = b"".join(upstream.taken() for upstream in route.all_upstreams())
    if request[0].upper() == b"KEYRAIL":
        assert b"KEYRAIL" not in sent.upper(), "Keyrail's own commands never reach Redis"
        assert inside or client.heard()
    elif b"\0" not in request[0] and len(request) == 1:
        assert call(*request) in sent, "one word is one name, whatever stands in it"


@pytest.mark.parametrize("joint", ["|", " ", "\t"])
def test_a_name_of_one_word_says_nothing_of_a_name_of_two(joint: str) -> None:
    """The engine's answer to `"CLIENT NOSUCH"` must not count for CLIENT NOSUCH, which it may know."""
    route = FakeRoute()
    client = Client(route)
    client.say(f"CLIENT{joint}NOSUCH")
    client.own.taken()
    client.own.answer(b"-ERR unknown command\r\n")
    client.say("CLIENT", "NOSUCH")
    assert client.own.taken() == call("CLIENT", "NOSUCH"), "asked about on a connection of its own"
