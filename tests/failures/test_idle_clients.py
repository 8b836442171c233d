"""An idle client is closed if that is configured, but no client that waits for something."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay has no such option")

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]
TIMEOUT = ("--client-idle-timeout", "3s")

STAY: dict[str, tuple[list[str], int]] = {
    "subscribes": (["SUBSCRIBE", "news"], 1),
    "blocks": (["BLPOP", "never", "0"], 0),
    "monitors": (["MONITOR"], 1),
}
GO: dict[str, list[list[str]]] = {
    "has sent nothing": [],
    "has sent a command": [["SET", "k", "v"]],
    "watches": [["WATCH", "k"]],
    "has an open transaction": [["MULTI"], ["SET", "k", "v"]],
    "has unsubscribed": [["SUBSCRIBE", "news"], ["UNSUBSCRIBE", "news"]],
}


def test_who_waits_stays_and_who_rests_is_closed(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url, extra=TIMEOUT)
    with ExitStack() as held:
        stay: dict[str, Wire] = {name: held.enter_context(keyrail.wire()) for name in STAY}
        for name, (argv, replies) in STAY.items():
            stay[name].send(pack(*argv))
            stay[name].frames(replies)
        go = {name: held.enter_context(keyrail.wire()) for name in GO}
        for name, sent in GO.items():
            for argv in sent:
                go[name].ask(*argv)
        for name, wire in go.items():
            with pytest.raises(Closed):
                raise AssertionError(f"who {name} got {wire.frame()!r}")
        eventually(lambda: keyrail.metric("keyrail_client_closes_total", cause="idle") == len(GO))
        engine.do("RPUSH", "never", "now")
        assert stay["blocks"].frame() == b"*2\r\n$5\r\nnever\r\n$3\r\nnow\r\n"
        engine.do("PUBLISH", "news", "new")
        assert stay["subscribes"].frame() == b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\nnew\r\n"
        assert stay["monitors"].frame().startswith(b"+")


def test_nobody_is_closed_unless_that_is_asked_for(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    keyrail = new_keyrail(new_engine().url)
    with keyrail.wire() as wire:
        assert wire.silent(2.5)
        assert wire.ask("PING") == b"+PONG\r\n"
