"""The scripts that nodes of a cluster get when they come: few enough, and none that no node has accepted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.net.topology.known_scripts import KnownScripts, ScriptNews
from tests.session.clustered import Routed
from tests.session.given import HOME, FakeRoute, call


def kept(known: KnownScripts, texts: list[bytes]) -> list[bytes]:
    return [text for text in texts if known.knows(text)]


def test_the_least_recently_used_ones_are_forgotten() -> None:
    known = KnownScripts(most=3 * 1200)
    texts = [bytes([65 + number]) * 1000 for number in range(5)]
    for text in texts[:3]:
        known.remember(text)
    assert known.knows(texts[0])
    known.remember(texts[3])
    assert kept(known, texts) == [texts[0], texts[2], texts[3]]
    known.remember(b"x" * 10_000)
    assert not kept(known, [*texts, b"x" * 10_000])
    known.remember(texts[4])
    known.forget()
    assert not kept(known, texts)
    for text in texts[:3]:
        known.remember(text)
    assert kept(known, texts) == texts[:3], "what is forgotten takes no room"


def test_workers_tell_each_other_what_is_new() -> None:
    one, other = KnownScripts(), KnownScripts()
    one.remember(b"return 1")
    one.remember(b"return 2")
    assert not one.knows(b"return 3")
    other.learn(one.take_news())
    assert kept(other, [b"return 1", b"return 2", b"return 3"]) == [b"return 1", b"return 2"]
    assert one.take_news() == other.take_news() == ScriptNews(), "each is told once"
    other.remember(b"return 3")
    other.forget()
    other.remember(b"return 4")
    one.learn(other.take_news())
    assert kept(one, [b"return 1", b"return 3", b"return 4"]) == [b"return 4"]
    assert other.all() == ScriptNews(False, (b"return 4",))


def test_many_new_ones_are_not_all_told() -> None:
    known = KnownScripts()
    for number in range(30):
        known.remember(b"%d" % number * 50_000)
    told = known.take_news().texts
    assert 0 < sum(map(len, told)) <= 1 << 20
    known.remember(b"return 1")
    assert known.take_news().texts == (b"return 1",)


def seen(*words: str, reply: bytes) -> bool:
    """Whether the script is remembered once a node has answered so."""
    route, known = FakeRoute(), KnownScripts()
    route.ports = replace(route.ports, known_scripts=known)
    client = Routed(route)
    client.say(*words)
    for upstream in route.all_upstreams():
        if upstream.taken():
            upstream.answer(reply)
    assert client.heard()
    return known.knows(b"return 1")


UNIT = b"+OK\r\n+QUEUED\r\n*1\r\n"


@pytest.mark.parametrize(
    ("words", "reply", "expected"),
    [
        (("EVAL", "return 1", "0"), b":1\r\n", True),
        (("EVAL_RO", "return 1", "0"), b":1\r\n", True),
        (("EVAL", "return 1", "1", "a"), UNIT + b":1\r\n", True),
        (("EVAL", "return 1", "1", "a"), UNIT + b"-NOPERM no\r\n", False),
        (("EVAL", "return 1", "0"), b"-ERR Error compiling script\r\n", False),
        (("SCRIPT", "LOAD", "return 1"), b"$3\r\nsha\r\n", True),
        (("SCRIPT", "LOAD", "return 1"), b"-NOPERM no\r\n", False),
        (("SCRIPT", "EXISTS", "return 1"), b"*1\r\n:1\r\n", False),
        (("GET", "return 1"), b"$-1\r\n", False),
    ],
)
def test_only_what_a_node_has_accepted_is_remembered(words: tuple[str, ...], reply: bytes, expected: bool) -> None:
    assert seen(*words, reply=reply) is expected


@pytest.mark.parametrize(("reply", "expected"), [(b"+OK\r\n", False), (b"-NOPERM no\r\n", True)])
def test_script_flush_forgets(reply: bytes, expected: bool) -> None:
    route, known = FakeRoute(), KnownScripts()
    known.remember(b"return 1")
    route.ports = replace(route.ports, known_scripts=known)
    client = Routed(route)
    client.send(call("SCRIPT", "FLUSH"))
    for upstream in route.all_upstreams():
        if upstream.taken():
            upstream.answer(reply)
    assert client.heard() == reply
    assert known.knows(b"return 1") is expected


@pytest.mark.parametrize(
    ("reply", "again"),
    [
        (b"$40\r\n", False),
        (b"-NOPERM no\r\n", False),
        (b"-ERR Error compiling script\r\n", False),
        (b"-LOADING a moment\r\n", True),
        (b"-BUSY a script runs\r\n", True),
        (b"-MASTERDOWN no link\r\n", True),
    ],
)
def test_what_a_node_refuses_for_a_moment_is_loaded_on_the_next_connection(reply: bytes, again: bool) -> None:
    known, asked = KnownScripts(), list[list[object]]()
    known.remember(b"return 1")

    async def ask(argv: list[object]) -> bytes:
        asked.append(argv)
        return reply

    upstream: Any = SimpleNamespace(key=HOME, run_id=b"one", ask=ask)
    for _ in range(2):
        asyncio.run(known.load_on(upstream))
    assert asked == [["SCRIPT", "LOAD", b"return 1"]] * (1 + again)


def test_what_is_remembered_while_a_node_gets_the_others_is_loaded_there_too() -> None:
    known, loaded = KnownScripts(), list[object]()
    known.remember(b"return 1")

    async def ask(argv: list[object]) -> bytes:
        loaded.append(argv[-1])
        if len(loaded) == 1:
            known.remember(b"return 2")
        return b"$40\r\n"

    upstream: Any = SimpleNamespace(key=HOME, run_id=b"one", ask=ask)
    asyncio.run(known.load_on(upstream))
    assert loaded == [b"return 1", b"return 2"]


def test_a_client_that_always_sends_new_ones_does_not_keep_a_node_waiting() -> None:
    known, loaded = KnownScripts(), list[object]()
    known.remember(b"return 0")

    async def ask(argv: list[object]) -> bytes:
        loaded.append(argv[-1])
        known.remember(b"return %d" % len(loaded))
        return b"$40\r\n"

    upstream: Any = SimpleNamespace(key=HOME, run_id=b"one", ask=ask)
    asyncio.run(known.load_on(upstream))
    assert 1 < len(loaded) < 10
    asyncio.run(known.load_on(upstream))
    assert 1 < len(loaded) < 10, "the node has been met"
