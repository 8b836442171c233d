"""Keyrail's own queries share one connection, which is given back when no reply is pending on it; if there is no
connection, or it is lost, the query ends with an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from proxy.net.pool.checkout import Checkout
from proxy.net.pool.internal_queries import InternalQueries
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.pool_waiter import PoolWaiter

KEY = PoolKey(None, 0, 2)


class Connection:
    """A connection on which questions wait for the test to answer them."""

    def __init__(self, *, shared: bool = False) -> None:
        self.shared = shared
        self.closed = False
        self.open: list[asyncio.Future[bytes]] = []
        self.asked: list[bytes] = []

    def ask(self, argv: Sequence[bytes]) -> asyncio.Future[bytes]:
        self.asked.append(b" ".join(argv))
        self.open.append(asyncio.get_running_loop().create_future())
        return self.open[-1]

    def lose(self) -> None:
        self.closed = True
        for question in self.open:
            question.set_exception(ConnectionResetError())


class Fake:
    """A checkout that has these connections."""

    def __init__(self, *connections: Connection) -> None:
        self.idle = list(connections)
        self.released: list[Connection] = []
        self.waiters: list[PoolWaiter] = []
        self.expects = True
        self.wants = False

    def for_questions(self, _key: PoolKey) -> Connection | None:
        return self.idle.pop() if self.idle else None

    def await_questions(self, waiter: PoolWaiter, _key: PoolKey) -> bool:
        if self.expects:
            self.waiters.append(waiter)
        return self.expects

    def wanted(self, _key: PoolKey) -> bool:
        return self.wants

    def give_back(self, connection: Connection) -> None:
        self.released.append(connection)
        self.idle.append(connection)


def played(checkout: Fake, play: Callable[[InternalQueries, list[object]], object]) -> list[object]:
    """The answers, in order, when all callbacks have run."""

    async def run() -> list[object]:
        heard: list[object] = []
        steps = play(InternalQueries(cast("Checkout", checkout)), heard)
        for _ in cast("Sequence[object]", steps):
            for _ in range(5):
                await asyncio.sleep(0)
        return heard

    return asyncio.run(run())


def test_questions_share_a_connection_until_all_are_answered() -> None:
    connection = Connection()
    checkout = Fake(connection)

    def play(internal_queries: InternalQueries, heard: list[object]) -> object:
        internal_queries.ask(KEY, [[b"HLEN", b"a"], [b"HLEN", b"b"]], heard.append)
        internal_queries.ask(KEY, [[b"HLEN", b"c"]], heard.append)
        connection.open[2].set_result(b":3\r\n")
        yield
        assert heard == [[b":3\r\n"]]
        assert checkout.released == []
        connection.open[0].set_result(b":1\r\n")
        connection.open[1].set_result(b":2\r\n")
        yield
        assert checkout.released == [connection]
        internal_queries.ask(KEY, [[b"HLEN", b"d"]], heard.append)
        connection.open[3].set_result(b":4\r\n")
        yield

    assert played(checkout, play) == [[b":3\r\n"], [b":1\r\n", b":2\r\n"], [b":4\r\n"]]
    assert connection.asked == [b"HLEN a", b"HLEN b", b"HLEN c", b"HLEN d"]


def test_what_clients_share_is_not_given_back() -> None:
    connection = Connection(shared=True)
    checkout = Fake(connection)

    def play(internal_queries: InternalQueries, heard: list[object]) -> object:
        internal_queries.ask(KEY, [[b"PING"]], heard.append)
        connection.open[0].set_result(b"+PONG\r\n")
        yield

    assert played(checkout, play) == [[b"+PONG\r\n"]]
    assert checkout.released == []


def test_a_connection_is_waited_for_once() -> None:
    connection = Connection()
    checkout = Fake()

    def play(internal_queries: InternalQueries, heard: list[object]) -> object:
        internal_queries.ask(KEY, [[b"ONE"]], heard.append)
        internal_queries.ask(KEY, [[b"TWO"]], heard.append)
        assert len(checkout.waiters) == 1
        checkout.idle.append(connection)
        checkout.waiters.pop().arrived()
        assert connection.asked == [b"ONE", b"TWO"]
        for question in connection.open:
            question.set_result(b"+OK\r\n")
        yield

    assert played(checkout, play) == [[b"+OK\r\n"], [b"+OK\r\n"]]


def test_whoever_asks_is_told_that_there_is_no_connection() -> None:
    checkout = Fake()

    def play(internal_queries: InternalQueries, heard: list[object]) -> object:
        internal_queries.ask(KEY, [[b"ONE"]], heard.append)
        checkout.waiters.pop().close("no_upstream")
        assert heard == [None]
        checkout.expects = False
        internal_queries.ask(KEY, [[b"TWO"]], heard.append)
        yield

    assert played(checkout, play) == [None, None]


def test_a_lost_connection_is_told_and_the_next_question_has_another() -> None:
    lost, other = Connection(), Connection()
    checkout = Fake(other, lost)

    def play(internal_queries: InternalQueries, heard: list[object]) -> object:
        internal_queries.ask(KEY, [[b"ONE"], [b"TWO"]], heard.append)
        lost.lose()
        internal_queries.ask(KEY, [[b"THREE"]], heard.append)
        yield
        assert heard == [None]
        other.open[0].set_result(b"+OK\r\n")
        yield

    assert played(checkout, play) == [None, [b"+OK\r\n"]]
    assert checkout.released == [other]


def test_a_connection_goes_back_also_where_the_last_answer_comes_on_another_one() -> None:
    shared, idle = Connection(shared=True), Connection()
    checkout = Fake(shared)

    def play(internal_queries: InternalQueries, heard: list[object]) -> object:
        internal_queries.ask(KEY, [[b"HLEN", b"a"]], heard.append)
        checkout.idle.append(idle)
        internal_queries.ask(KEY, [[b"HLEN", b"b"]], heard.append)
        for connection in (idle, shared):
            connection.open[0].set_result(b":1\r\n")
            yield
        assert checkout.released == [idle]

    played(checkout, play)


def test_clients_that_wait_for_a_connection_get_it_before_further_questions() -> None:
    connection = Connection()
    checkout = Fake(connection)

    def play(internal_queries: InternalQueries, heard: list[object]) -> object:
        internal_queries.ask(KEY, [[b"HLEN", b"a"]], heard.append)
        checkout.wants = True
        internal_queries.ask(KEY, [[b"HLEN", b"b"]], heard.append)
        connection.open[0].set_result(b":1\r\n")
        yield
        assert checkout.released == [connection]
        assert connection.asked == [b"HLEN a", b"HLEN b"]

    played(checkout, play)
