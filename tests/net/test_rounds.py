"""Whatever is done about all clients of a route is done a portion in each turn of the event loop, and each counts."""

from __future__ import annotations

import ast
import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.hotpath.intake.intake import READING
from proxy.net.downstream.backlog import Backlog
from proxy.net.downstream.census import FEW, Census
from proxy.net.downstream.idle_clients import IdleClients, LeftClients
from proxy.net.downstream.reply_timeout import ReplyTimeout
from proxy.net.downstream.rounds import PORTION, Rounds
from tests.conftest import seeds
from tests.program_source import trees

MANY = 1000


class Loop:
    """An event loop whose turns are taken one by one."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: deque[Callable[[], object]] = deque()

    def time(self) -> float:
        return self.now

    def call_soon(self, act: Callable[[], object]) -> Any:
        self.soon.append(act)
        return SimpleNamespace(cancel=lambda: self.soon.remove(act))

    def call_later(self, _seconds: float, _act: Callable[[], object]) -> Any:
        return SimpleNamespace(cancel=lambda: None)

    def turn(self) -> bool:
        """What is due now; False if nothing is."""
        due = [self.soon.popleft() for _ in range(len(self.soon))]
        for act in due:
            act()
        return due != []


class Client:
    """What is asked of a session, each time that it is noted."""

    def __init__(self, app: str = "") -> None:
        self.asked = 0
        self.local = 0
        self.state = SimpleNamespace(blocked=False, upstream=None, subscriptions=None)
        self.subscriber = None
        self.left = False
        self.sent = SimpleNamespace(
            forwarded=0, remembered=0, pending_replies=0, full=False, stalled=False, upstream=None, out=[]
        )
        self.intake = SimpleNamespace(phase=READING, pending=None, unfinished=None, unread=lambda: 2)
        self.app = app
        self.closed = ""

    @property
    def sender(self) -> SimpleNamespace:
        self.asked += 1
        return self.sent

    @property
    def leaving(self) -> bool:
        self.asked += 1
        return self.left

    @property
    def effective_policy(self) -> SimpleNamespace:
        return SimpleNamespace(compiled=SimpleNamespace(app=self.app))

    def waiting(self) -> int:
        return 1

    def close(self, cause: str) -> None:
        self.closed = cause


def uncounted(event: str) -> None:
    """Nothing has failed."""
    raise AssertionError(event)


def nothing() -> None:
    """Nothing follows."""


def census_of(loop: Any, clients: Any) -> Census:
    """That of made-up clients."""
    return Census(loop, clients, uncounted)


def census(loop: Any, clients: Any) -> Callable[[], object]:
    return partial(census_of(loop, clients).begin, nothing)


def idle(loop: Any, clients: Any) -> Callable[[], object]:
    return IdleClients(loop, clients, 1.0, uncounted).another_second


def late(loop: Any, clients: Any) -> Callable[[], None]:
    return ReplyTimeout(loop, clients, 1.0, uncounted)._turn


def left(loop: Any, clients: Any) -> Callable[[], object]:
    closing = LeftClients(loop, clients, lambda: True, uncounted).another_second
    for client in clients:
        client.left = True
    return closing


def each_is_asked(loop: Any, clients: Any) -> Callable[[], object]:
    return Rounds(loop, clients, "asking", lambda client: client.sender, uncounted).begin


@pytest.mark.parametrize("walker", [census, idle, late, left, each_is_asked])
@pytest.mark.parametrize("number", [PORTION - 1, PORTION, PORTION + 1, MANY])
def test_all_are_visited_and_few_in_a_turn(walker: Callable[[Any, Any], Callable[[], object]], number: int) -> None:
    loop, clients = Loop(), {Client() for _ in range(number)}
    begin = walker(loop, clients)
    begin()
    begin()  # nothing more, where a round is under way
    while True:
        if number > PORTION:
            assert sum(client.asked > 0 for client in clients) <= PORTION, "in this turn"
        before = {client for client in clients if client.asked}
        for client in before:
            client.asked = -MANY
        if not loop.turn():
            break
    assert all(client.asked for client in clients)


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_each_command_is_counted_once_for_the_app_that_sent_it(seed: int) -> None:
    chance, loop, clients = random.Random(seed), Loop(), set[Client]()
    counting = census_of(loop, clients)
    sent, local, before = Counter[str](), 0, Counter[str]()
    for _ in range(chance.choice([20, PORTION, FEW - 2, FEW, FEW + 2, 2 * FEW])):
        clients.add(Client(chance.choice("ab")))
    for _ in range(300):
        client: Any = chance.choice(list(clients)) if clients else None
        match chance.choice(["sends", "sends", "is answered", "comes", "leaves", "leaves", "looks", "turns"]):
            case "sends" if client is not None:
                client.sent.forwarded += 2
                sent[client.app] += 2
            case "is answered" if client is not None:
                client.local += 1
                client.sent.remembered += 1
                sent[client.app] += 2
                local += 2
            case "comes":
                clients.add(Client(chance.choice("ab")))
            case "leaves" if client is not None:
                clients.remove(client)
                counting.leaves(client)
            case "looks":
                counting.begin(nothing)
            case "turns":
                loop.turn()
        counting.refresh()
        now = counting.commands_by_app()
        assert now >= before
        assert now <= sent
        if len(clients) <= FEW:
            assert (now, counting.answered_locally) == (sent, local), "of few clients all is known"
            assert counting.buffered() == 3 * len(clients)
        before = now
    counting.settle()
    assert (counting.commands_by_app(), counting.answered_locally) == (sent, local)
    assert counting.buffered() == 3 * len(clients)


def test_each_second_has_what_was_sent_in_it() -> None:
    """A second ends when each client has been seen, so that all have had a second, however long the rounds take."""
    loop, clients = Loop(), [Client() for _ in range(MANY)]
    told: list[int] = []
    counting = census_of(loop, clients)
    for _ in range(4):
        for client in clients:
            client.sent.forwarded += 10
        counting.begin(lambda: told.append(sum(counting.commands_by_app().values())))
        counting.refresh()  # as each report does: of many, no round begins
        while loop.turn():
            pass
    assert told == [10 * MANY * (n + 1) for n in range(4)]


def test_whoever_waits_for_a_whole_round_gets_all_that_was_sent_before() -> None:
    async def play() -> None:
        clients = [Client() for _ in range(MANY)]
        loop = asyncio.get_running_loop()
        counting = census_of(loop, clients)
        counting.begin(nothing)  # which has already seen the first ones
        for client in clients:
            client.sent.forwarded += 1
        await counting.complete()
        assert sum(counting.commands_by_app().values()) == MANY

    asyncio.run(play())


def test_a_command_has_not_waited_since_before_it_was_sent() -> None:
    """The round has begun long before it looks at the last clients."""
    loop, clients = Loop(), [Client() for _ in range(MANY)]
    turn = late(loop, clients)
    for begins in (0.0, 0.5, 1.0):
        loop.now = begins
        turn()
        while loop.turn():
            loop.now += 0.56 * PORTION / MANY
            if loop.now > 0.2:
                for client in clients:
                    client.sent.pending_replies = 1
    assert {client.closed for client in clients} == {""}, "0.8 s after they were sent"
    backlog, waiting = Backlog(loop.time), cast("Any", clients[0])
    for _ in range(2):
        backlog.begin()
        backlog.note(waiting)
        loop.now += 1.0
        backlog.publish()
    assert backlog.oldest == pytest.approx(1.0)


def test_after_an_error_the_others_are_visited(caplog: pytest.LogCaptureFixture) -> None:
    loop, clients, events = Loop(), [Client() for _ in range(MANY)], Counter[str]()
    visited: list[object] = []

    def visit(client: object) -> None:
        visited.append(client)
        if len(visited) % 100 == 1:
            raise ValueError(len(visited))

    def count(event: str) -> None:
        events[event] += 1

    rounds = Rounds(cast("Any", loop), cast("Any", clients), "trying", visit, count, lambda: visited.append("all"))
    rounds.begin()
    while loop.turn():
        pass
    assert len(visited) == MANY + 1
    assert visited[-1] == "all"
    assert events["periodic_failures"] == MANY // 100
    assert len(caplog.records) == 1
    assert not rounds.under_way


WALKERS = {
    "net/pool/checkout.py": "Redis is one that Keyrail does not serve: all clients are closed",
    "net/pool/connection_set.py": "a connection becomes a client's own, or a node is left: no work for each client",
    "net/cache/local_caches.py": "the local cache begins, ends or gets a database",
    "net/policy/policies.py": "in slices of time; and once after another policy has come into force",
    "net/pool/tenant_holds.py": "FLUSHDB of a tenant begins: who of it waits for replies",
    "net/pool/relearning.py": "connections show names of clients that may have left",
    "net/downstream/route_clients.py": "all clients are closed, or told to leave",
}
"""Who goes through all clients otherwise, and when."""


def walks(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            text = ast.unparse(node.iter)
            if text in ("self._clients", "list(self._clients)"):
                yield node.iter.lineno


@pytest.mark.source
def test_nothing_else_goes_through_all_clients() -> None:
    found = {path for path, tree in trees().items() if path.startswith("net/") and any(walks(tree))}
    assert found - {"net/embedded/embedded_servers.py", "net/downstream/worker_loads.py"} == WALKERS.keys(), (
        "those two have other clients"
    )
