"""For any order in which Redis decides logins and its replies arrive: a remembered pair is the one that it accepted
last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.net.logins.logins import REMEMBERED_SECONDS
from proxy.session.ports.login_port import Credentials, LoginReply
from proxy.session.ports.pool_key import PoolKey
from tests.net.test_logins import ALONE, OK, OWN, WRONG, Redis, Waiter


class Client(NamedTuple):
    """What a client says, on a connection that it shares or on its own, and what Redis decides."""

    login: Credentials
    pinned: bool
    frame: bytes


FORMS = (OWN, ALONE)
CLIENT = st.builds(Client, st.sampled_from(FORMS), st.booleans(), st.sampled_from((OK, WRONG)))
STEPS = 3
"""Of one client: it asks, Redis decides, the reply arrives."""
DISTURBANCES = st.lists(st.sampled_from(("change users", "restart", "wait")), max_size=2)


@dataclass(eq=False)
class Question:
    """A login on its way to Redis and back; ``turn`` says when Redis decided about it, and 0 that it has not."""

    login: Credentials
    pinned_client: Waiter | None = None
    frame: bytes = b""
    turn: int = 0
    time: float = 0.0
    arrived: bool = False
    reply: asyncio.Future[bytes] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class SlowRedis(Redis):
    """Decides and answers when a step says so."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0
        self.forgotten = 0
        self.questions: list[Question] = []
        self.clients: list[asyncio.Task[LoginReply]] = []

    async def answer(self, argv: list[bytes]) -> bytes:
        question = Question(ALONE if len(argv) == 2 else OWN)
        self.questions.append(question)
        return await question.reply

    def begin(self, client: Client) -> None:
        if client.pinned:
            self.questions.append(Question(client.login, Waiter()))
        else:
            self.clients.append(asyncio.create_task(self.log_in(client.login)))

    def decide(self, question: Question, frame: bytes) -> None:
        question.frame, question.turn, question.time = frame, self.turn, self.time

    def deliver(self, question: Question) -> None:
        question.arrived = True
        if question.pinned_client is None:
            question.reply.set_result(question.frame)
        elif question.frame == OK:
            self.logins.accepted(question.pinned_client, question.login, PoolKey(None, 0, 2))
        else:
            self.logins.refused(question.pinned_client, question.login)

    def disturb(self, disturbance: str) -> None:
        match disturbance:
            case "change users":
                self.changes.add()
                self.forgotten = self.turn
            case "restart":
                self.restarts.met += 1
                self.forgotten = self.turn
            case "wait":
                self.time += REMEMBERED_SECONDS

    def check_what_is_remembered(self) -> None:
        arrived = [question for question in self.questions if question.arrived]
        since = max((question.turn for question in arrived if question.frame == WRONG), default=0)
        since = max(since, self.forgotten)
        for login in FORMS:
            if self.logins._remembers(login):
                times = [
                    question.time
                    for question in arrived
                    if question.frame == OK and question.turn > since and question.login in (login, ALONE)
                ]
                assert max(times, default=0.0) > self.time - REMEMBERED_SECONDS

    async def settle(self) -> None:
        for _ in range(12):
            await asyncio.sleep(0)

    async def play(self, clients: list[Client], schedule: list[int | str]) -> None:
        asked: dict[int, Question] = {}
        for step in schedule:
            self.turn += 1
            if isinstance(step, str):
                self.disturb(step)
            elif step not in asked:
                before = len(self.questions)
                self.begin(clients[step])
                await self.settle()
                # One whose pair is remembered asks nothing, and one that finds others asking waits for them.
                asked[step] = self.questions[before] if len(self.questions) > before else Question(OWN, turn=-1)
            elif not asked[step].turn:
                self.decide(asked[step], clients[step].frame)
            elif asked[step].turn > 0:
                self.deliver(asked[step])
            await self.settle()
            self.check_what_is_remembered()
        while not all(client.done() for client in self.clients):
            for question in [question for question in self.questions if not question.arrived]:
                self.decide(question, OK)
                self.deliver(question)
            await self.settle()
        await asyncio.gather(*self.clients)


@settings(max_examples=400)
@given(st.data())
def test_a_remembered_pair_is_one_that_redis_accepted_last(data: st.DataObject) -> None:
    clients = data.draw(st.lists(CLIENT, min_size=2, max_size=4))
    steps: list[int | str] = [number for number in range(len(clients)) for _ in range(STEPS)]
    schedule = data.draw(st.permutations([*steps, *data.draw(DISTURBANCES)]))

    async def main() -> None:
        await asyncio.wait_for(SlowRedis().play(clients, schedule), 30.0)

    asyncio.run(main())
