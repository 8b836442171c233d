"""A scan takes its share of a server's time, and less where the server gets slower."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, cast

import pytest

from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.info_figures import read_info
from proxy.server.stored.link import Answer
from proxy.server.stored.model import NodeFigures
from proxy.server.stored.node_run import NodeLostError, NodeRun
from proxy.server.stored.node_walk import LostReplyError, NodeWalk, OtherProcessError, Request, Tally, Walking
from proxy.server.stored.pace import Pace, reason_to_stop
from proxy.server.stored.seen import SeenKeys
from proxy.server.stored.totals import Totals
from tests.server.stored.fake_servers import FakeJudge, FakeServer, Value, error

IDLE, _SLOW = 0.001, 0.05


class VirtualClock:
    def __init__(self) -> None:
        self.time = 100.0
        self.waited = 0.0
        self.before: Callable[[], object] = lambda: None

    def now(self) -> float:
        return self.time

    async def wait(self, seconds: float) -> None:
        assert seconds >= 0
        self.before()
        self.time += seconds
        self.waited += seconds


class Link:
    """A connection to a fake server, which works ``work`` seconds for a request of keys. Requests behind number
    ``slow_from`` take longer.

    ``troubles`` come one after the other, in place of an answer: an error, or a reply.
    """

    def __init__(self, clock: VirtualClock, server: FakeServer, work: float = 0.01) -> None:
        self.counts_members = True
        self.clock = clock
        self.server = server
        self.work = work
        self.slow_from = 1 << 60
        self.worked = 0.0
        self.info: bytes | None = b""
        self.troubles: dict[int, Exception] = {}
        self.opens: list[bool | Exception] = [False]
        self.requests = 0
        self.closed = False

    async def connect(self) -> bool:
        outcome = self.opens.pop(0) if len(self.opens) > 1 else self.opens[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def ask(self, request: Request) -> Answer:
        self.requests += 1
        trouble = self.troubles.pop(self.requests, None)
        if isinstance(trouble, OSError):
            raise trouble
        if trouble is not None:
            return Answer([trouble] * len(request.commands), IDLE)
        names = {command[0] for command in request.commands}
        replies: Sequence[Any] = self.server.answer(request)
        if self.info is not None and request.commands[0][1:] in ((b"persistence",), (b"replication",)):
            replies = [self.info] * len(request.commands)
        work = self.work if names & {b"SCAN", b"TYPE"} else 0.0
        self.worked += work
        took = IDLE + work + (_SLOW if self.requests > self.slow_from else 0.0)
        self.clock.time += took
        return Answer(replies, took)

    def close(self) -> None:
        self.closed = True


class Stage:
    """A run over some keys."""

    def __init__(self, share: float, keys: int = 2000) -> None:
        self.clock, self.server = VirtualClock(), FakeServer(Random(1))
        self.server.bits = 12
        self.server.held[0] = {b"k%d" % each: Value() for each in range(keys)}
        self.link = Link(self.clock, self.server)
        self.judge = FakeJudge()
        self.figures = NodeFigures("one")
        self.share = share
        self.use(self.link)

    def use(self, link: Link) -> None:
        """Another connection in place of the one that there is."""
        self.link = link
        walk = NodeWalk(Tally(self.judge, Totals(str), SeenKeys(int)), self.figures)
        self.run = NodeRun(walk, link, self.share, self.clock, patience=60.0)

    def go(self) -> float:
        """The seconds that it took."""
        began = self.clock.time
        asyncio.run(self.run.run())
        assert self.link.closed
        return self.clock.time - began

    def counted_all(self) -> bool:
        return sorted(key.name for key in self.judge.judged) == sorted(self.server.held[0])


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5])
def test_the_share_is_kept(share: float) -> None:
    stage = Stage(share)
    took = stage.go()
    assert stage.counted_all()
    assert stage.link.worked / took <= share
    assert stage.link.worked / took >= 0.8 * share, "it need not be slower than that"
    assert stage.run.worked == pytest.approx(stage.link.worked)


def test_at_100_percent_nothing_is_waited_for_or_asked_beside() -> None:
    stage = Stage(1.0)
    stage.go()
    assert stage.counted_all()
    assert stage.clock.waited == 0
    assert not any(each[0] == b"PING" for each in stage.server.asked)


def test_late_pings_double_the_waits_and_those_in_time_halve_them() -> None:
    pace = Pace(0.5, [0.001] * 50)
    assert pace.wait_after(0.011) == pytest.approx(0.01)
    for expected in (2, 4, 8):
        pace.probed(0.02)
        assert pace.back_off == expected
        assert pace.wait_after(0.011) == pytest.approx(0.01 * expected)
    assert pace.wait_after(0.0) > 0, "a page that seems to cost nothing is waited for, too"
    for expected in (4, 2, 1, 1):
        pace.probed(0.0011)
        assert pace.back_off == expected
    for _ in range(100):
        pace.probed(1.0)
    assert pace.wait_after(100.0) == 5.0


def test_late_is_measured_by_the_usual_round_trips_and_not_by_the_longest_one() -> None:
    pace = Pace(0.5, [0.001] * 46 + [0.2] * 4)
    pace.probed(0.02)
    assert pace.back_off == 2
    busy_at_first = Pace(0.5, [0.1] * 50)
    for _ in range(48):
        busy_at_first.probed(0.001)
    busy_at_first.probed(0.02)
    assert busy_at_first.back_off == 1
    for _ in range(4):
        busy_at_first.probed(0.001)
    busy_at_first.probed(0.02)
    assert busy_at_first.back_off == 2, "it is usually quicker than at the start"
    assert busy_at_first.work_in(0.011) == pytest.approx(0.01)
    for _ in range(200):
        busy_at_first.probed(0.02)
    assert busy_at_first.back_off > 2, "what is late never gets usual"


def test_a_slower_server_gets_less_to_do() -> None:
    calm, slow = Stage(0.25), Stage(0.25)
    before = calm.go()
    slow.link.slow_from = 70  # behind the PINGs of the start
    assert slow.go() > 10 * before
    assert slow.counted_all()


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (b"loading:0\r\nrdb_bgsave_in_progress:0\r\naof_rewrite_in_progress:0\r\n", ""),
        (b"loading:1\r\n", "it loads its data"),
        (b"rdb_bgsave_in_progress:1\r\n", "it saves (RDB)"),
        (b"aof_rewrite_in_progress:1\r\n", "it rewrites its AOF"),
        (b"role:master\r\nmaster_failover_state:failover-in-progress\r\n", "it fails over"),
        (b"role:master\r\nmaster_failover_state:no-failover\r\n", ""),
        (b"role:slave\r\nmaster_sync_in_progress:1\r\n", "it gets its data from the primary"),
    ],
)
def test_when_a_scan_stops(info: bytes, reason: str) -> None:
    assert reason_to_stop(read_info(info)) == reason


def test_while_the_server_saves_nothing_but_that_is_asked() -> None:
    stage = Stage(0.25)
    stage.link.info = b"rdb_bgsave_in_progress:1\r\n"
    seen: list[tuple[str, int]] = []

    def watch() -> None:
        if stage.run.state:
            seen.append((stage.run.state, len(stage.judge.judged)))
            if len(seen) == 30:
                stage.link.info = b"rdb_bgsave_in_progress:0\r\n"

    stage.clock.before = watch
    assert stage.go() > 29
    assert seen == [("it saves (RDB)", 0)] * 30
    assert stage.counted_all()
    assert stage.run.state == ""


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_replica_is_walked_while_it_follows_its_primary(share: float) -> None:
    stage = Stage(share)
    stage.run = NodeRun(stage.run._walk, stage.link, share, stage.clock, patience=60.0, for_primary=True)
    states: set[str] = set()

    def watch() -> None:
        states.add(stage.run.state)
        stage.link.info = b"role:slave\r\nmaster_link_status:" + (b"down" if stage.clock.waited < 9 else b"up")

    stage.clock.before = watch
    stage.link.info = b"role:slave\r\nmaster_link_status:up"
    stage.go()
    assert stage.counted_all()
    assert "its link to the primary is down" in states or share == 1.0
    stage.clock.before = lambda: None
    stage.link.info = b"role:slave\r\nmaster_link_status:down"
    stage.run = NodeRun(stage.run._walk, stage.link, share, stage.clock, patience=60.0, for_primary=True)
    with pytest.raises(NodeLostError, match=r"^its link to the primary is down$"):
        stage.go()


def test_a_lost_connection_to_the_same_process_costs_nothing() -> None:
    stage = Stage(0.25)
    stage.link.troubles = {70: ConnectionResetError("gone"), 90: TimeoutError()}
    stage.link.opens = [False, ConnectionRefusedError("not yet"), False]
    stage.go()
    assert stage.counted_all()
    assert (stage.figures.restarts, stage.figures.repeated) == (0, 0)


def test_another_process_is_walked_from_the_start_and_counts_nothing_twice() -> None:
    stage = Stage(0.25)
    stage.link.troubles = {70: ConnectionResetError("gone")}
    stage.link.opens = [False, True, False]
    stage.go()
    assert stage.counted_all()
    assert stage.figures.restarts == 1
    assert stage.figures.repeated > 0


def test_a_server_that_loads_or_whose_cluster_is_down_is_waited_for() -> None:
    stage = Stage(0.25)
    stage.link.troubles = {70: error("LOADING Redis is loading"), 80: error("CLUSTERDOWN The cluster is down")}
    stage.go()
    assert stage.counted_all()
    stage = Stage(0.25)
    stage.link.troubles = {number: error("CLUSTERDOWN The cluster is down") for number in range(60, 2000)}
    with pytest.raises(NodeLostError, match=r"^CLUSTERDOWN"):
        stage.go()


def test_a_server_that_is_gone_for_too_long_is_given_up() -> None:
    stage = Stage(0.25)
    stage.link.troubles = {70: ConnectionResetError("gone")}
    stage.link.opens = [False, ConnectionRefusedError("nobody there")]
    with pytest.raises(NodeLostError, match="nobody there"):
        stage.go()
    assert 60 <= stage.clock.waited < 70
    assert stage.judge.judged, "what was counted is there"


def test_a_refused_login_is_told_at_once() -> None:
    stage = Stage(0.25)
    stage.link.opens = [UpstreamRefusedError("WRONGPASS invalid username-password pair")]
    with pytest.raises(UpstreamRefusedError):
        stage.go()
    assert stage.clock.waited == 0
    stage = Stage(0.25)
    stage.link.opens = [UpstreamRefusedError("ERR max number of clients reached"), False]
    stage.go()
    assert stage.counted_all()


@pytest.mark.parametrize("is_other", [False, True])
def test_what_is_to_be_sent_once_is_not_sent_again(is_other: bool) -> None:
    stage, told = Stage(0.25), list[str]()

    class Once:
        figures = NodeFigures("one")
        counts_members = False

        def walk(self) -> Walking:
            yield Request(0, [(b"TYPE", b"k1")])
            try:
                yield Request(0, [(b"TYPE", b"k2")], once=True)
            except (LostReplyError, OtherProcessError) as error:
                told.append(type(error).__name__)
            (reply,) = yield Request(0, [(b"TYPE", b"k3")])
            told.append(reply.decode())
            busy = yield Request(0, [(b"TYPE", b"k4")], once=True)
            told.append(str(*busy))

    troubles: list[Exception] = [TimeoutError(), error("BUSY a script runs")]
    ask = stage.link.ask

    async def in_trouble(request: Request) -> Answer:
        if request.once:
            stage.link.troubles[stage.link.requests + 1] = troubles.pop(0)
        return await ask(request)

    stage.link.ask = in_trouble  # type: ignore[method-assign]  # of this one link
    stage.link.opens = [False, is_other, False]
    asyncio.run(NodeRun(cast("NodeWalk", Once()), stage.link, 0.25, stage.clock, patience=60.0).run())
    names = [command[1] for command in stage.server.asked if command[0] == b"TYPE"]
    assert told == ["OtherProcessError" if is_other else "LostReplyError", "string", "BUSY a script runs"]
    assert names == [b"k1", b"k3"], "neither the lost one nor the refused one has come again"
