"""Of a cluster, clients get the databases that all nodes have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from proxy.net.pool.databases import Databases
from proxy.session.ports.pool_key import Node
from tests.net.waiters import Waiter

FIRST, SECOND = NODES = [Node(0), Node(1)]
OUT_OF_RANGE = b"-ERR DB index is out of range\r\n"


class Awaiting(Waiter):
    def __init__(self) -> None:
        self.came = asyncio.Event()

    def arrived(self) -> None:
        self.came.set()


class Bench:
    """Two nodes, with so many databases each."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = dict(zip(NODES, sizes, strict=True))
        self.answers: dict[Node, bytes] = {}
        self.down: set[Node] = set()
        self.asked: list[tuple[Node, int]] = []
        self.tasks: list[Any] = []
        topology: Any = SimpleNamespace(nodes=NODES)
        supply: Any = SimpleNamespace(alive=lambda node: node not in self.down)
        opening: Any = SimpleNamespace(open_apart=self.open)
        self.databases = Databases(topology, supply, opening, self.start)

    def start(self, work: Any) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def open(self, node: Node) -> Any:
        async def ask(argv: list[Any]) -> bytes:
            self.asked.append((node, argv[1]))
            return self.answers.get(node) or (b"+OK\r\n" if argv[1] < self.sizes[node] else OUT_OF_RANGE)

        if self.answers.get(node) == b"":
            raise ConnectionResetError
        return SimpleNamespace(ask=ask, abort=lambda: None)

    async def refusal(self, number: int) -> bytes:
        """As a session asks."""
        waiter = Awaiting()
        found = self.databases.refusal(waiter, number)
        if found is None:
            await asyncio.wait_for(waiter.came.wait(), 10)
            found = self.databases.refusal(waiter, number)
        assert found is not None
        return found


def run(case: Callable[[Bench], Awaitable[None]], *sizes: int) -> None:
    async def play() -> None:
        await case(Bench(*sizes))

    asyncio.run(play())


def test_all_nodes_must_have_it() -> None:
    async def case(bench: Bench) -> None:
        assert [await bench.refusal(number) for number in (1, 3, 2)] == [b"", OUT_OF_RANGE, OUT_OF_RANGE]

    run(case, 4, 2)


def test_what_is_known_is_not_asked_again_until_the_node_is_connected_to_anew() -> None:
    async def case(bench: Bench) -> None:
        assert await bench.refusal(2) == b""
        assert await bench.refusal(9) == OUT_OF_RANGE
        assert len(bench.asked) == 4
        assert [await bench.refusal(number) for number in (0, 1, 2)] == [b""] * 3
        assert [await bench.refusal(number) for number in (9, 10)] == [OUT_OF_RANGE] * 2
        assert len(bench.asked) == 4
        bench.sizes[SECOND] = 2
        bench.databases.forget(SECOND)
        assert await bench.refusal(2) == OUT_OF_RANGE
        assert bench.asked[4:] == [(SECOND, 2)]

    run(case, 4, 4)


def test_who_asks_meanwhile_waits_for_the_same_answers() -> None:
    async def case(bench: Bench) -> None:
        assert await asyncio.gather(*(bench.refusal(3) for _ in range(5))) == [b""] * 5
        assert len(bench.asked) == 2

    run(case, 4, 4)


def test_a_node_that_cannot_be_asked_holds_up_nobody() -> None:
    async def case(bench: Bench) -> None:
        for answer in (b"", b"-NOPERM no\r\n", b"-LOADING later\r\n"):
            bench.answers[SECOND] = answer
            bench.databases.forget(SECOND)
            assert await bench.refusal(1) == b""
        bench.down = {SECOND}
        bench.databases.forget(SECOND)
        bench.asked.clear()
        assert await bench.refusal(2) == b""
        assert bench.asked == [(FIRST, 2)]

    run(case, 4, 1)
