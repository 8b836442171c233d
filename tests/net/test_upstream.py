"""A connection to Redis that sends unexpected data, too much data, or leads to a replica: the calls to its owner."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.commands.table import Lane
from proxy.hotpath.upstream.in_flight import NOTE, ReplySink
from proxy.hotpath.upstream.pipeline_listener import PipelineListener
from proxy.hotpath.upstream.sender_listener import HeldUpstream, ReplyRecipient
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.net.connection.connect import open_upstream
from proxy.net.connection.failures import Failures
from proxy.net.connection.own_commands import UnitOpenError
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.connections import Connections
from proxy.net.pool.pool import Pool
from proxy.net.topology.topology import Single
from proxy.session.ports.pool_key import PoolKey
from tests.session.given import call

KEY = PoolKey(None, 0, 2)
LARGE = 1 << 20
GET = call("GET", "a")


class Loop:
    """A loop on which nothing happens by itself; it writes down where it was asked to connect to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return 0.0

    def call_soon(self, _act: Callable[[], object]) -> None:
        """Writing is not what these tests are about."""

    def call_later(self, seconds: float, act: Callable[..., None], *arguments: object) -> Any:
        self.timers.append((seconds, lambda: act(*arguments)))
        return SimpleNamespace(cancel=self.timers.clear)

    def create_task(self, work: Coroutine[Any, Any, None]) -> Any:
        """A task that is started ends at once."""
        with contextlib.suppress(StopIteration):
            work.send(None)
        return Ended()

    async def create_connection(self, _protocol: object, host: str, port: int, **_options: object) -> None:
        self.asked.append((host, port))
        raise ConnectionRefusedError


class Ended:
    """A task that has come to its end."""

    def add_done_callback(self, forget: Callable[[Ended], object]) -> None:
        forget(self)


class Transport:
    """The transport of the connection."""

    def __init__(self) -> None:
        self.closed = ""
        self.reading = True
        self.written: list[bytes] = []
        self.write = self.written.append

    def set_write_buffer_limits(self, high: int) -> None:
        """It takes everything."""

    def is_closing(self) -> bool:
        return bool(self.closed)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = "closed"

    def abort(self) -> None:
        self.closed = "aborted"


class Client(ReplySink):
    """Somebody who expects replies."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[bytes] = []
        self.write = self.heard.append

    def client(self) -> ReplyRecipient | None:
        return self

    def close(self, cause: str) -> None:
        self.gone = True

    def let_go(self) -> bool:
        return False

    def waiting(self) -> int:
        return 0

    def on_redirect(self, upstream: object, entry: object, error: bytes) -> bytes | None:
        return error

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        """It takes everything."""

    def pause_source(self) -> None:
        """Nobody reads from it."""

    def resume_source(self) -> None:
        """Nobody reads from it."""


class SlowReader(Client):
    """A client that takes nothing of what it is sent; so many bytes wait for it."""

    def __init__(self, behind: int) -> None:
        super().__init__()
        self.full = True
        self.behind = behind
        self.cause = ""
        self.held: list[HeldUpstream] = []

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        self.held.append(upstream)

    def waiting(self) -> int:
        return self.behind

    def close(self, cause: str) -> None:
        self.gone, self.cause = True, cause


class Shared:
    """One shared connection, and the connections of its route."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.loop = Loop()
        loop: Any = self.loop
        settings: Any = SimpleNamespace(client_output_limit=LARGE, upstream_connections=0)
        known: Any = SimpleNamespace(refusal=None, renew=lambda _: None)
        self.keeper = Connections(
            Single(UpstreamAddress()),
            settings,
            loop,
            known,
            cast("Any", None),
            (),
            self.events,
            Failures(lambda: 0.0),
            give_back=UpstreamConnection.close,
            doubt=lambda _upstream, _line: None,
        )
        self.upstream = UpstreamConnection(self.keeper, KEY, loop)
        self.transport = Transport()
        self.upstream.connection_made(cast("asyncio.Transport", self.transport))
        self.pool: Pool = self.keeper.pools.of(KEY)
        self.keeper.supply.share(self.pool, self.upstream, Lane.FAST)
        self.client = Client()

    def submit(self, client: Client) -> None:
        self.upstream.pipeline.send_run(client, GET, 1)

    def takes_work(self) -> bool:
        return self.pool.shared(Lane.FAST) is self.upstream


def test_a_read_goes_straight_to_the_pipeline() -> None:
    upstream = Shared().upstream
    assert upstream.data_received == upstream.pipeline.receive
    assert not isinstance(upstream, UpstreamPipeline)


def test_a_lost_connection_is_freed_without_the_garbage_collector() -> None:
    shared = Shared()
    gc.disable()
    try:
        others = pipelines() - 1
        lost = weakref.ref(shared.upstream)
        shared.submit(shared.client)
        shared.upstream.connection_lost(None)
        del shared.upstream
        assert lost() is None
        assert pipelines() == others
    finally:
        gc.enable()


def pipelines() -> int:
    return sum(isinstance(each, UpstreamPipeline) for each in gc.get_objects())


def test_what_happens_in_the_pipeline_of_a_lost_connection_concerns_nobody() -> None:
    """A command that was refused on it can be given up later, with the errors that came from there."""
    shared = Shared()
    shared.upstream.connection_lost(None)
    listener = shared.upstream.pipeline.listener
    given: dict[str, list[object]] = {
        "uninvited": [b""],
        "command_refused": [b""],
        "on_large_head": [ReplySink()],
        "overflowing": [ReplySink()],
        "resume_for": [None],
    }
    for name in [name for name in vars(PipelineListener) if not name.startswith("_")]:
        getattr(listener, name)(*given.get(name, []))


def test_who_has_left_is_heard_out_where_something_may_follow() -> None:
    shared = Shared()
    upstream, heard = shared.upstream, []
    shared.submit(shared.client)
    upstream.finish()
    assert shared.transport.closed, "nobody listens to the reply"

    shared = Shared()
    upstream = shared.upstream

    def answered(frame: bytes) -> None:
        heard.append(frame)
        if len(heard) == 1:
            upstream.pipeline.send_commands(shared.client, GET)
            upstream.pipeline.enqueue(shared.client, 1, NOTE, answered)

    upstream.pipeline.send_commands(shared.client, GET)
    upstream.pipeline.enqueue(shared.client, 1, NOTE, answered)
    upstream.finish()
    upstream.data_received(b":1\r\n")
    assert (heard, shared.transport.closed) == ([b":1\r\n"], "")
    upstream.data_received(b":2\r\n")
    assert (heard, shared.transport.closed) == ([b":1\r\n", b":2\r\n"], "closed")


def test_who_has_left_is_not_heard_out_for_ever() -> None:
    shared = Shared()
    shared.upstream.pipeline.enqueue(shared.client, 1, NOTE, lambda _: None)
    shared.upstream.finish()
    [(seconds, act)] = shared.loop.timers
    act()
    assert (seconds, shared.transport.closed) == (5.0, "aborted")


@pytest.mark.parametrize("frame", [b"-ERR max number of clients reached\r\n", b"-ERR idle\r\n", b"+OK\r\n"])
def test_an_error_that_nobody_asked_for_is_counted_and_reaches_nobody(frame: bytes) -> None:
    shared = Shared()
    shared.submit(shared.client)
    shared.upstream.pipeline.receive(b"+a\r\n" + frame)
    assert shared.client.heard == [b"+a\r\n"]
    assert (shared.events["uninvited"], shared.transport.closed) == (1, "aborted")
    assert not shared.takes_work()


def test_a_push_that_is_nobodys_is_counted_and_reaches_nobody() -> None:
    shared = Shared()
    shared.submit(shared.client)
    shared.upstream.pipeline.receive(b">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n" + b"+a\r\n")
    assert shared.client.heard == [b"+a\r\n"]
    shared.keeper.all.account(shared.upstream)
    shared.keeper.all.account(shared.upstream)
    assert (shared.events["ownerless_push"], shared.transport.closed) == (1, "")
    assert shared.takes_work()


def test_a_large_reply_takes_the_connection_out_of_the_pool_until_it_has_passed() -> None:
    shared = Shared()
    behind = Client()
    shared.submit(shared.client)
    shared.submit(behind)
    shared.upstream.pipeline.receive(b"$%d\r\n" % (LARGE + 1))
    assert not shared.takes_work()
    shared.upstream.pipeline.receive(b"x" * (LARGE + 1) + b"\r\n")
    assert not shared.takes_work(), "what was behind it is still pending"
    shared.upstream.pipeline.receive(b"+b\r\n")
    assert shared.takes_work()
    assert (len(b"".join(shared.client.heard)), behind.heard) == (len(b"$1048577\r\n\r\n") + LARGE + 1, [b"+b\r\n"])


def test_who_falls_behind_by_the_cap_has_a_second_and_then_holds_nobody_up() -> None:
    shared, slow = Shared(), SlowReader(LARGE + 1)
    for client in (slow, slow, shared.client):
        shared.submit(client)
    shared.upstream.pipeline.receive(b"+a\r\n$")
    assert (shared.transport.reading, shared.takes_work(), slow.cause) == (False, False, "")
    ((seconds, give_up),) = shared.loop.timers
    assert seconds == 1.0
    give_up()
    assert (shared.transport.reading, slow.cause) == (True, "slow_reader")
    shared.upstream.pipeline.receive(b"6\r\n+wrong\r\n+b\r\n")
    assert (slow.heard, shared.client.heard) == ([b"+a\r\n"], [b"+b\r\n"])
    assert shared.takes_work()


def test_who_is_a_little_behind_holds_nobody_up() -> None:
    shared, slow = Shared(), SlowReader(LARGE)
    shared.submit(slow)
    shared.submit(shared.client)
    shared.upstream.pipeline.receive(b"+a\r\n+b\r\n")
    assert (shared.transport.reading, shared.takes_work(), shared.loop.timers) == (True, True, [])
    assert shared.client.heard == [b"+b\r\n"]


def server_that_is(monkeypatch: pytest.MonkeyPatch, replica: bool) -> list[UpstreamConnection]:
    """Its role is what the test says; the connections that were asked for it."""
    asked: list[UpstreamConnection] = []

    async def is_replica(upstream: UpstreamConnection) -> bool:
        asked.append(upstream)
        return replica

    monkeypatch.setattr("proxy.net.pool.demotions.is_replica", is_replica)
    return asked


def test_an_error_that_says_readonly_retires_no_connection_to_a_primary(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = server_that_is(monkeypatch, replica=False)
    shared = Shared()
    for each in (1, 2):
        shared.submit(shared.client)
        shared.upstream.pipeline.receive(b"-READONLY says a script\r\n")
        assert (shared.takes_work(), shared.transport.closed, shared.events["retired"]) == (True, "", 0)
        assert asked == [shared.upstream] * each


def elsewhere(monkeypatch: pytest.MonkeyPatch, *, primary: bool) -> None:
    """Whether a new connection leads to a primary."""

    async def leads_to_primary(_self: object, _node: object) -> bool:
        return primary

    monkeypatch.setattr("proxy.net.pool.sole_replicas.SoleReplicas.leads_to_primary", leads_to_primary)


def test_a_connection_to_a_replica_stays_where_new_ones_lead_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    server_that_is(monkeypatch, replica=True)
    elsewhere(monkeypatch, primary=False)
    shared = Shared()
    shared.submit(shared.client)
    shared.upstream.pipeline.receive(b"-READONLY no\r\n")
    assert (shared.takes_work(), shared.transport.closed, shared.events["retired"]) == (True, "", 0)


def test_a_connection_to_a_replica_takes_no_more_work_and_closes_when_it_is_paid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server_that_is(monkeypatch, replica=True)
    elsewhere(monkeypatch, primary=True)
    shared = Shared()
    shared.submit(shared.client)
    shared.submit(shared.client)
    shared.upstream.pipeline.receive(b"-READONLY no\r\n")
    assert (shared.takes_work(), shared.transport.closed, shared.events["retired"]) == (False, "", 1)
    shared.upstream.pipeline.receive(b"+b\r\n")
    assert shared.transport.closed == "closed"
    assert b"".join(shared.client.heard) == b"-READONLY no\r\n+b\r\n"


def test_each_connection_asks_anew_where_its_name_leads() -> None:
    loop: Any = Loop()
    keeper: Any = SimpleNamespace(errors=None, redirects=None)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            asyncio.run(open_upstream(parse_upstream("redis://redis.internal:6400"), None, keeper, KEY, loop))
    assert loop.asked == [("redis.internal", 6400)] * 2


def test_nothing_is_asked_where_a_clients_unit_is_open() -> None:
    """A question would be queued in its transaction, or complete its unfinished command: it ends at once, unsent."""

    async def play() -> None:
        client = Client()
        for opened in ("unit", "partial"):
            upstream = UpstreamConnection(
                cast("Any", SimpleNamespace(errors=None, redirects=None)), KEY, asyncio.get_running_loop()
            )
            transport = Transport()
            upstream.connection_made(cast("Any", transport))
            upstream.open_to_all(Lane.FAST)
            pool = Pool(KEY)
            pool.lanes[Lane.FAST].append(upstream)
            assert (pool.shared(Lane.FAST), pool.in_unit(Lane.FAST)) == (upstream, False)
            setattr(upstream.pipeline, opened, client)
            assert (pool.shared(Lane.FAST), pool.in_unit(Lane.FAST)) == (None, True)
            with pytest.raises(UnitOpenError):
                await upstream.ask(["PING"])
            pool.idle.append(upstream)
            assert pool.take_idle() is None
            upstream.pipeline.flush()
            assert transport.written == []

    asyncio.run(play())


def test_nothing_is_read_behind_a_reply_that_takes_several_turns() -> None:
    shared = Shared()
    upstream, transport = shared.upstream, shared.transport
    shared.submit(shared.client)
    upstream.pipeline.begin_late()
    assert not transport.reading
    upstream.resume()
    assert not transport.reading, "a slow client that has caught up changes nothing"
    upstream.pipeline.take_late(b"+a\r\n")
    upstream.pipeline.end_late()
    assert (transport.reading, shared.client.heard) == (True, [b"+a\r\n"])


def test_a_slow_client_is_still_slow_behind_a_reply_that_took_several_turns() -> None:
    shared, slow = Shared(), SlowReader(LARGE + 1)
    for client in (slow, slow):
        shared.submit(client)
    shared.upstream.pipeline.receive(b"+a\r\n")
    shared.upstream.pipeline.begin_late()
    shared.upstream.pipeline.end_late()
    assert not shared.transport.reading
    shared.upstream.resume_for(slow)
    assert shared.transport.reading
