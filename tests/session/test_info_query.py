"""The arguments of KEYRAIL HOTKEYS and its relatives, and how many rows of the answer the client gets."""

from __future__ import annotations

import pytest

from proxy.session.ports.info_query import InfoQuery, read_options, shortened
from tests.session.given import Client, FakeRoute, call, route_with

KEYS = {"window": 60, "age": 0.5, "keys": [{"key": f"user:{number}", "rate": 1.5} for number in range(30)]}
PATTERNS = {
    "age": 0.5,
    "patterns": [{"pattern": "a", "rate": 5.0}, {"pattern": "b", "rate": 2.5}],
    "other": {"patterns": 3, "rate": 1.0},
}


@pytest.mark.parametrize(
    ("subject", "words", "expected"),
    [
        ("hotkeys", "", (InfoQuery("hotkeys", 60, "all"), 10)),
        ("hotkeys", "by Reads window 3600 COUNT 100", (InfoQuery("hotkeys", 3600, "reads"), 100)),
        ("patterns", "COUNT 1", (InfoQuery("patterns", 60), 1)),
        ("slots", "WINDOW 10", (InfoQuery("slots", 10), 10)),
        ("clients", "WINDOW 5 COUNT 3", (InfoQuery("clients", 5), 3)),
        ("slow", "COUNT 3", (InfoQuery("slow"), 3)),
        ("incidents", "", (InfoQuery("incidents"), 10)),
    ],
)
def test_options(subject: str, words: str, expected: tuple[InfoQuery, int]) -> None:
    assert read_options(subject, words.encode().split()) == expected


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["HOTKEYS", "TOP", "3"], "unknown option 'TOP', expected COUNT or WINDOW or BY"),
        (["SLOTS", "BY", "reads"], "unknown option 'BY', expected COUNT or WINDOW"),
        (["SLOW", "WINDOW", "60"], "unknown option 'WINDOW', expected COUNT"),
        (["HOTKEYS", "5"], "unknown option '5', expected COUNT or WINDOW or BY"),
        (["HOTKEYS", "COUNT"], "COUNT: expected a value behind it"),
        (["HOTKEYS", "COUNT", "1", "count", "2"], "COUNT is given twice"),
        (["HOTKEYS", "COUNT", "0"], "COUNT: expected a whole number from 1 to 100, got '0'"),
        (["PATTERNS", "COUNT", "²"], "COUNT: expected a whole number from 1 to 100, got '²'"),
        (["HOTKEYS", "WINDOW", "61"], "WINDOW: expected 5, 10, 60, 600 or 3600, got '61'"),
        (["HOTKEYS", "BY", "a\r\n+b"], "BY: expected all, reads, writes or bytes, got 'a  +b'"),
    ],
)
def test_mistakes_are_said_at_once(words: list[str], error: str) -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("KEYRAIL", *words)
    assert client.heard() == f"-ERR {error}. Try KEYRAIL HELP.\r\n".encode()
    assert not route.waiting, "nobody was asked"


def test_it_is_answered_in_its_place_with_as_many_rows_as_wanted() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("GET", "a") + call("KEYRAIL", "HOTKEYS", "COUNT", "2") + call("GET", "b"))
    assert route.waiting, "the supervisor is being asked"
    route.upstream().answer(b"$1\r\n1\r\n")
    assert client.heard() == b"$1\r\n1\r\n"
    route.group_infos["hotkeys"] = KEYS
    route.feed()
    rows = b"*4\r\n$3\r\nkey\r\n$6\r\nuser:0\r\n$4\r\nrate\r\n$3\r\n1.5\r\n"
    rows += rows.replace(b"user:0", b"user:1")
    expected = b"*6\r\n$6\r\nwindow\r\n:60\r\n$3\r\nage\r\n$3\r\n0.5\r\n$4\r\nkeys\r\n*2\r\n" + rows
    assert client.heard() == expected
    route.upstream().answer(b"$1\r\n2\r\n")
    assert client.heard() == b"$1\r\n2\r\n"


def test_it_is_answered_while_no_upstream_is_to_be_had() -> None:
    route = FakeRoute()
    route.starving = True
    route.group_infos["slots"] = {"age": 0.5, "slots": []}
    client = Client(route)
    client.say("KEYRAIL", "SLOTS")
    assert client.heard() == b"*4\r\n$3\r\nage\r\n$3\r\n0.5\r\n$5\r\nslots\r\n*0\r\n"


def test_what_is_cut_is_in_other() -> None:
    assert shortened(PATTERNS, 1) == {
        "age": 0.5,
        "patterns": [{"pattern": "a", "rate": 5.0}],
        "other": {"patterns": 4, "rate": 3.5},
    }
    assert shortened(PATTERNS, 2) == PATTERNS


def test_none_of_them_is_a_key() -> None:
    route = route_with("rules: {}\n")
    client = Client(route)
    route.group_infos["hotkeys"] = KEYS
    client.send(call("KEYRAIL", "HOTKEYS", "COUNT", "2") + call("SET", "a", "1"))
    assert [key_count.key for key_count in route.counters.harvest(10).key_counts] == [b"a"]
