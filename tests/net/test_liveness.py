"""Keyrail tells silence from slowness: by answers, by progress, and by the answer on a new connection."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.commands.table import Lane
from proxy.net.config.address import UpstreamAddress
from proxy.net.pool.liveness import Liveness
from proxy.net.topology.topology import Single
from proxy.session.ports.pool_key import SOLE_NODE, Node, PoolKey

SILENCE = 3.0
PONG = b"+PONG\r\n"
ZERO = b":0\r\n"


INFO = b"$47\r\nused_memory:7\r\ndb0:keys=3,expires=1,avg_ttl=9\r\n\r\n"
BUSY, NOPERM = b"-BUSY Redis is busy running a script.\r\n", b"-NOPERM User app has no permissions\r\n"


class Upstream:
    """A connection that answers what it is asked when it is told to."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answers: tuple[bytes, ...] = ()) -> None:
        self.loop = loop
        self.waiting: list[asyncio.Future[bytes]] = []
        self.ready = list(answers)
        self.info = INFO
        self.key = PoolKey(None, 0, 2, SOLE_NODE)
        self.asked: list[str] = []
        self.pipeline = SimpleNamespace(head=None)
        self.moved = 0
        self.reading, self.closed = True, False

    def vacant(self) -> bool:
        return True

    def progress(self) -> tuple[int, ...]:
        return (self.moved,)

    def ask(self, argv: list[str]) -> asyncio.Future[bytes]:
        self.asked.append(argv[0])
        question: asyncio.Future[bytes] = self.loop.create_future()
        if argv == ["INFO"]:
            question.set_result(self.info)
        elif self.ready:
            question.set_result(self.ready.pop(0))
        else:
            self.waiting.append(question)
        return question

    def answer(self, frame: bytes = PONG) -> None:
        for question in self.waiting:
            question.set_result(frame)
        self.waiting.clear()

    def abort(self) -> None:
        self.closed = True
        for question in self.waiting:
            question.set_exception(ConnectionResetError())
        self.waiting.clear()


class Bench:
    """A route with one shared connection beside the one that is Keyrail's own; time goes when it is told to."""

    def __init__(self, *, asks_info: bool = False) -> None:
        self.loop = asyncio.get_running_loop()
        self.now = 100.0
        self.own, self.shared = Upstream(self.loop), Upstream(self.loop)
        self.fresh: list[Upstream | OSError] = [self.own]
        self.events: list[str] = []
        self.late: list[bool] = []
        pool = SimpleNamespace(key=PoolKey(None, 0, 2), lanes={Lane.FAST: [self.shared]})
        self.connections = SimpleNamespace(
            topology=Single(UpstreamAddress("there")),
            loop=SimpleNamespace(time=lambda: self.now),
            all=SimpleNamespace(closing=False, start=self.start),
            supply=SimpleNamespace(alive=lambda _node: True),
            opening=SimpleNamespace(open_apart=self.open_apart),
            pools=[pool],
            count=self.events.append,
            hesitates=lambda node, *, late: self.late.append(late),
        )
        self.tasks: list[asyncio.Task[None]] = []
        self.liveness = Liveness(cast("Any", self.connections), SILENCE, asks_info=asks_info)

    def start(self, work: Any) -> None:
        self.tasks.append(self.loop.create_task(work))

    async def open_apart(self, _node: Node) -> Upstream:
        found = self.fresh.pop(0) if self.fresh else OSError("nobody is there")
        if isinstance(found, OSError):
            raise found
        return found

    async def seconds(self, count: int, *answering: Upstream, step: float = 1.0) -> None:
        """Let so much time go by, while these connections answer."""
        for _ in range(count):
            self.now += step
            self.liveness.another_second()
            for _ in range(10):
                await asyncio.sleep(0)
            for upstream in answering:
                upstream.answer()
            for _ in range(10):
                await asyncio.sleep(0)

    def silent(self) -> bool:
        return self.liveness.silent_since is not None


def run(case: Any, *, asks_info: bool = False) -> None:
    async def play() -> None:
        bench = Bench(asks_info=asks_info)
        await bench.seconds(2, bench.own, bench.shared)
        await case(bench)

    asyncio.run(play())


def test_who_answers_is_asked_each_second_and_nothing_is_said() -> None:
    async def case(bench: Bench) -> None:
        await bench.seconds(5, bench.own, bench.shared)
        assert (bench.silent(), bench.events, bench.liveness.reason) == (False, [], "")
        assert bench.shared.asked == ["PING"] * 7

    run(case)


@pytest.mark.parametrize("frame", [b"$1\r\nv\r\n", b"+OK\r\n", b":1\r\n", b"*0\r\n", b"_\r\n"])
def test_a_connection_whose_ping_is_answered_by_something_else_is_closed(frame: bytes) -> None:
    async def case(bench: Bench) -> None:
        await bench.seconds(1, bench.own)
        bench.shared.answer(b"-NOPERM no\r\n")
        await bench.seconds(2, bench.own)
        assert bench.events == [], "an error is an answer"
        bench.shared.answer(frame)
        await bench.seconds(1, bench.own)
        assert (bench.shared.closed, bench.events) == (True, ["out_of_step"])

    run(case)


def test_a_node_is_silent_by_itself_and_only_as_long_as_it_is_one() -> None:
    async def case(bench: Bench) -> None:
        topology = SimpleNamespace(
            nodes=(SOLE_NODE, Node(1)), address=lambda node: f"node {node.number}", doubt=lambda: None
        )
        bench.connections.topology = cast("Any", topology)
        bench.fresh.append(Upstream(bench.loop))
        await bench.seconds(6, bench.own, bench.shared)
        assert bench.liveness.reason.startswith("node 1: Redis has not answered since ")
        assert bench.silent()
        topology.nodes = (SOLE_NODE,)
        await bench.seconds(1, bench.own, bench.shared)
        assert (bench.silent(), bench.liveness.reason) == (False, "")

    run(case)


@pytest.mark.parametrize("hangs", ["own", "shared"])
def test_a_node_is_late_from_the_first_turn_without_an_answer_until_there_is_one(hangs: str) -> None:
    async def case(bench: Bench) -> None:
        late, other = (bench.own, bench.shared) if hangs == "own" else (bench.shared, bench.own)
        await bench.seconds(1, other)
        assert bench.late == []
        await bench.seconds(1, other)
        assert bench.late == [True]
        await bench.seconds(1, other)
        late.answer()
        await asyncio.sleep(0)
        assert bench.late == [True, False]
        await bench.seconds(3, late, other)
        assert bench.late == [True, False]

    run(case)


def test_another_server_is_looked_for_while_the_answer_of_one_is_late() -> None:
    async def case(bench: Bench) -> None:
        doubts: list[float] = []
        topology: Any = Single(UpstreamAddress("there"))
        topology.doubt = lambda: doubts.append(bench.now)
        bench.connections.topology = topology
        await bench.seconds(1)
        assert doubts == []
        await bench.seconds(6)
        assert bench.silent()
        assert {*doubts} == {104.0, 105.0, 106.0, 107.0, 108.0, 109.0}, "each second, long before it is silent"
        await bench.seconds(2, bench.own, bench.shared)
        doubts.clear()
        await bench.seconds(5, bench.own, bench.shared)
        assert doubts == []

    run(case)


def test_silence_is_said_and_closes_nobody_unless_a_new_connection_is_answered() -> None:
    async def case(bench: Bench) -> None:
        await bench.seconds(3)
        assert not bench.silent()
        await bench.seconds(2)
        assert bench.silent()
        assert bench.liveness.reason.startswith("redis://there:6379: Redis has not answered since ")
        assert (bench.own.closed, bench.shared.closed) == (False, False)
        await bench.seconds(1, bench.own)
        assert not bench.silent()

    run(case)


@pytest.mark.parametrize(
    ("answers", "replaced"),
    [
        ((PONG, ZERO), True),
        ((PONG, b"-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n"), True),
        ((PONG, BUSY, BUSY), False),
        ((PONG, NOPERM, NOPERM), False),
        ((PONG, NOPERM, b":1\r\n"), True),
        ((PONG, b"-MOVED 1 there:6380\r\n", b":1\r\n"), True),
        ((b"-BUSY\r\n",), False),
        ((b"-NOPERM\r\n",), False),
    ],
)
def test_a_connection_is_dead_where_a_new_one_runs_what_writes_wait_for(
    answers: tuple[bytes, ...], replaced: bool
) -> None:
    async def case(bench: Bench) -> None:
        fresh = Upstream(bench.loop, answers)
        bench.fresh.append(fresh)
        await bench.seconds(4, bench.own)
        assert not bench.shared.closed
        await bench.seconds(1, bench.own)
        assert bench.shared.closed is replaced
        assert bench.events == ["silent"] * replaced
        assert fresh.closed
        assert not bench.silent()

    run(case)


def test_what_answers_as_soon_as_a_new_connection_does_is_not_dead() -> None:
    async def case(bench: Bench) -> None:
        bench.fresh.append(Upstream(bench.loop, (PONG, ZERO)))
        await bench.seconds(4, bench.own)
        bench.shared.answer()
        await asyncio.sleep(0)
        await bench.seconds(2, bench.own, bench.shared)
        assert (bench.shared.closed, bench.events) == (False, [])

    run(case)


def test_what_still_moves_is_not_dead() -> None:
    async def case(bench: Bench) -> None:
        for _ in range(3 * int(SILENCE)):
            bench.shared.moved += 1
            bench.fresh.append(Upstream(bench.loop, (PONG, ZERO)))
            await bench.seconds(1, bench.own)
        assert not bench.shared.closed

    run(case)


def test_a_pause_of_keyrail_is_no_silence_of_redis() -> None:
    async def case(bench: Bench) -> None:
        bench.fresh.append(Upstream(bench.loop, (PONG, ZERO)))
        await bench.seconds(1)
        await bench.seconds(1, step=60.0)
        assert not bench.silent()
        await bench.seconds(1, bench.own, bench.shared)
        assert (bench.silent(), bench.own.closed, bench.shared.closed) == (False, False, False)

    run(case)


# INFO


def info_of(bench: Bench) -> Any:
    found = bench.liveness.of(SOLE_NODE)
    return None if found is None else found.info


def test_info_is_asked_now_and_then_after_ping() -> None:
    async def case(bench: Bench) -> None:
        await bench.seconds(58, bench.own, bench.shared)
        places = [each for each, name in enumerate(bench.own.asked) if name == "INFO"]
        assert len(places) == 4
        assert all(bench.own.asked[each - 1] == "PING" for each in places)
        assert "INFO" not in bench.shared.asked
        assert info_of(bench) == {"used_memory": 7.0, "total_keys": 3, "total_expires": 1, "average_ttl": 9.0}

    run(case, asks_info=True)


def test_a_redis_that_is_late_is_not_asked_for_info_and_what_it_said_gets_old() -> None:
    async def case(bench: Bench) -> None:
        assert info_of(bench) is not None
        await bench.seconds(40, bench.shared)  # its PING is not answered
        assert info_of(bench) is None
        bench.own.answer()
        await bench.seconds(40, bench.own)  # the shared connection is late
        assert bench.own.asked.count("INFO") == 1
        assert info_of(bench) is None

    run(case, asks_info=True)


def test_who_may_not_ask_for_info_does_so_once() -> None:
    async def case(bench: Bench) -> None:
        bench.own.info = NOPERM
        await bench.seconds(60, bench.own, bench.shared)
        assert bench.own.asked.count("INFO") == 2
        assert info_of(bench) is None

    run(case, asks_info=True)


def test_one_worker_asks_for_info() -> None:
    async def case(bench: Bench) -> None:
        await bench.seconds(40, bench.own, bench.shared)
        assert "INFO" not in bench.own.asked
        assert info_of(bench) is None

    run(case)
