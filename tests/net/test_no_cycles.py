"""No command leaves a cycle of references: a policy that is bound just then would keep it for ever, since the collector
is told not to visit what is alive at that moment.

A real route in this process, an engine, and several clients at once for each kind of command: with rules that ask Redis
before they decide, or behind the client's back, that follow commands with hidden ones, that read replies and scripts.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable, Coroutine, Sequence
from types import FunctionType, MethodType
from typing import Any

import pytest
import uvloop

from proxy.net.config.address import parse_listen, parse_upstream
from proxy.net.config.settings import ListenerSettings
from proxy.net.connection.deadline import Deadline
from proxy.net.downstream.acceptor import NewClient
from proxy.net.follow.topologies import topology_of
from proxy.net.policy.plan_compiler import PlanCompiler
from proxy.net.sockets.opening import ready_sockets, take_accepted
from proxy.policy.load import load_policy
from proxy.policy.model import TRANSPARENT, Policy
from proxy.policy_yaml.shipped import packaged
from tests.conftest import Fleet
from tests.net.routes import new_route
from tests.policy.given import policy
from tests.resp import PATIENCE_SECONDS, FrameReader, pack, words

ASKING = """
defaults: {mode: enforce}
rules:
  sizes: {collections: {members: 5000, streams: 5000, sample: 99%}}
  reads: {whole_collections: {max: 100}}
  lifetimes: {lifetime: {default: 5m, sliding: true, types: all}}
  few: {limits: {per: user, rate: 100000/s}}
"""
KINDS = {
    "read": ["GET user:1", "MGET user:{1}:a user:{1}:b", "HGET session:1 f", "SCAN 0", "OBJECT ENCODING user:1"],
    "write": ["SET user:1 v", "DEL user:1", "SET user:1 v EX 9", "SETNX user:2 v", "GETSET user:2 w", "MSET user:3 v"],
    "a look at a size": ["HSET user:{4}:h f v", "SADD user:{4}:s m", "ZADD user:{4}:z 1 m", "RPUSH user:{4}:l a"],
    "a read that waits": ["HGETALL user:{4}:h", "SMEMBERS user:{4}:s", "LRANGE user:{4}:l 0 -1", "HGETALL none:1"],
    "a hidden command": ["INCR user:5", "XADD user:{5}:x * f v", "LPUSH user:{5}:l a", "RENAME user:5 user:5"],
    "a script": [
        "EVAL 'return 1' 0",
        "EVAL \"return redis.call('INCR', KEYS[1])\" 1 user:6",
        "EVALSHA nosuch 1 user:6",
    ],
    "a transaction": ["MULTI", "INCR user:7", "EXEC", "MULTI", "HSET user:8 f v", "DISCARD"],
    "a watch": ["WATCH user:7", "HSET user:9 f v", "GET user:7", "UNWATCH"],
    "blocking": ["BLPOP user:10 0.01", "WAIT 0 0"],
    "subscriptions": ["SUBSCRIBE c", "UNSUBSCRIBE c", "PUBLISH c m"],
    "tracking": ["CLIENT TRACKING ON", "HSET user:11 f v", "CLIENT TRACKING OFF"],
    "a connection": ["CLIENT ID", "CLIENT SETNAME a", "SELECT 0", "HELLO 2", "AUTH default x", "RESET", "PING"],
    "refused": ["KEYS *", "FLUSHALL", "NO.SUCH x", "HSET user:12", "CONFIG GET maxmemory"],
    "of Keyrail": ["KEYRAIL HELP", "KEYRAIL EXPLAIN GET a", "INFO server"],
}


class Speaker:
    """A client in the same event loop."""

    async def connect(self, new_client: NewClient) -> None:
        mine, theirs = socket.socketpair()
        for each in (mine, theirs):
            each.setblocking(False)
        loop = asyncio.get_running_loop()
        sockets = ready_sockets(loop)
        assert sockets is not None
        take_accepted(sockets, theirs, None, new_client())
        self._reader, self._writer = await asyncio.open_connection(sock=mine)
        self._frames = FrameReader()

    async def ask(self, line: str) -> bytes:
        self._writer.write(pack(*words(line)))
        while (frame := self._frames.frame()) is None:
            data = await asyncio.wait_for(self._reader.read(1 << 16), PATIENCE_SECONDS)
            assert data, f"closed behind {line}"
            self._frames.feed(data)
        return frame

    def leave(self) -> None:
        self._writer.close()


def own_kind(each: object) -> str:
    """The name of an object of Keyrail's, or of a function that it has made; empty for others."""
    function = each.__func__ if isinstance(each, MethodType) else each
    if isinstance(function, FunctionType):
        return function.__qualname__ if (function.__module__ or "").startswith("proxy.") else ""
    kind = type(each)
    return kind.__qualname__ if any(base.__module__.startswith("proxy.") for base in kind.__mro__) else ""


async def cycles(url: str, chosen: Policy, lines: Sequence[str], *, reloads: bool) -> list[str]:
    """What only a collection frees once several clients have sent these lines."""
    upstream = parse_upstream(url)
    route = new_route(upstream, topology_of(upstream), policy=chosen, traces=1)
    await route.start()
    new_client = route.listeners.new_client(ListenerSettings(parse_listen("redis://127.0.0.1:1")))
    speakers = [Speaker() for _ in range(4)]
    try:
        for speaker in speakers:
            await speaker.connect(new_client)

        async def play() -> None:
            for line in lines:
                await asyncio.gather(*(speaker.ask(line) for speaker in speakers))
            if reloads:
                await route.prepare(chosen, route._policies.generation + 1, PlanCompiler(chosen).find)
                await route.commit()
            # What was asked behind the clients' backs is answered before this.
            await asyncio.gather(*(speaker.ask("PING") for speaker in speakers))
            for _ in range(20):
                await asyncio.sleep(0.001)

        await play()
        gc.collect()
        gc.disable()
        for _ in range(3):
            await play()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        return sorted({kind for kind in map(own_kind, gc.garbage) if kind})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        for speaker in speakers:
            speaker.leave()
        route.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chosen", ["none", "asking", "strict"])
def test_commands_leave_no_cycle(fleet: Fleet, chosen: str, kind: str) -> None:
    rules = {"none": lambda: TRANSPARENT, "asking": lambda: policy(ASKING), "strict": _strict}[chosen]()
    url = fleet.engine("valkey-9.1", "no cycles").url
    assert _run(cycles(url, rules, KINDS[kind], reloads=False)) == []


def test_a_reload_leaves_no_cycle(fleet: Fleet) -> None:
    url = fleet.engine("valkey-9.1", "no cycles").url
    lines = [line for kind in ("read", "write", "a look at a size") for line in KINDS[kind]]
    assert _run(cycles(url, _strict(), lines, reloads=True)) == []


def _run(asked: Coroutine[Any, Any, list[str]]) -> list[str]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as a worker does
        return runner.run(asked)


def _strict() -> Policy:
    return load_policy(packaged("strict"))


@pytest.mark.parametrize("ends", ["acts", "is cancelled"])
def test_a_deadline_that_is_over_refers_to_nothing(ends: str) -> None:
    """Who sets one keeps it, to cancel it: a cycle, as long as it refers to them."""

    class Setter:
        def begin(self, loop: asyncio.AbstractEventLoop, ended: Callable[[], object]) -> None:
            self.ended = ended
            self.deadline = Deadline(loop, 0.0, self.end)
            if ends == "is cancelled":
                self.deadline.cancel()
                ended()

        def end(self) -> None:
            self.ended()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        Setter().begin(loop, over.set)
        await over.wait()

    gc.collect()
    gc.disable()
    try:
        asyncio.run(main())
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = {type(each).__name__ for each in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not kinds & {"Setter", "Deadline"}
