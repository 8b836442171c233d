"""One worker exceeds a collection's cap by no more than its writes in flight, however fast they come: between two
look-ups each worker counts the members that its writes may have added."""

import random
from collections.abc import Callable
from functools import partial

import pytest

from proxy.commands.table import STANDARD
from proxy.rules.collections.rule import Collections, CollectionsSettings
from proxy.rules.context import Context
from proxy.rules.rule import Binding
from proxy.rules.verdict import PASS, InspectReply, Pass, Procedure, Refuse
from tests.rules.given import NO_WORDS, command, context

CAP = 200
MOST = 20
"""Members that one write brings at most."""
WRITES: dict[str, Callable[[list[str]], list[str]]] = {
    "HSET": lambda members: [word for member in members for word in (member, "v")],
    "SADD": list,
    "ZADD": lambda members: [word for member in members for word in ("1", member)],
    "RPUSH": list,
    "XADD": lambda _: ["*", "f", "v"],
}


def rule(sample: float = 0.1) -> Collections:
    return CollectionsSettings(CAP, CAP, sample, 5).bind("caps", NO_WORDS, Binding(STANDARD))


def at(now: float) -> Context:
    found = context()
    found.now = now
    return found


class Worker:
    """One worker and Redis, with as many commands between them as there are clients.

    Each client waits for its reply. Commands and size queries under way arrive in any order.
    """

    def __init__(self, chance: random.Random, name: str) -> None:
        self.chance = chance
        self.name = name
        self.rule = rule()
        self.now = 0.0
        self.size = 0
        self.under_way: list[Callable[[], object]] = []
        self.refused = 0
        self.waited = 0

    def write(self) -> None:
        members = [str(self.chance.randrange(10**9)) for _ in range(self.chance.randint(1, MOST))]
        words = WRITES[self.name](members)
        verdict = self.rule.judge(command(" ".join([self.name, "k", *words])), at(self.now))
        added = 1 if self.name == "XADD" else len(members)
        match verdict:
            case Refuse():
                self.refused += 1
            case Procedure(waits=True):
                self.waited += 1
                self.look(verdict, added)
            case Procedure():
                self.look(verdict, 0)
                self.under_way.append(partial(self.run, added))
            case InspectReply():
                self.under_way.append(partial(self.push, added, verdict))
            case _:
                assert verdict == PASS
                self.under_way.append(partial(self.run, added))

    def look(self, procedure: Procedure, added: int) -> None:
        steps = procedure.steps()
        next(steps)

        def answered() -> None:
            size = b":%d\r\n" % self.size
            self.under_way.append(partial(ended, size))

        def ended(size: bytes) -> None:
            try:
                steps.send([size])
            except StopIteration as stop:
                if added and isinstance(stop.value, Pass):
                    self.under_way.append(partial(self.run, added))

        self.under_way.append(answered)

    def run(self, added: int) -> None:
        self.size += added

    def push(self, added: int, look: InspectReply) -> None:
        self.size += added
        length = b":%d\r\n" % self.size
        self.under_way.append(partial(look.at, length))

    def arrives(self) -> None:
        self.under_way.pop(self.chance.randrange(len(self.under_way)))()


@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.parametrize("name", WRITES)
def test_a_cap_is_passed_by_no_more_than_what_is_under_way(name: str, clients: int) -> None:
    refused = waited = 0
    for seed in range(10):
        chance = random.Random(f"{name} {clients} {seed}")
        worker = Worker(chance, name)
        for _ in range(400):
            worker.now += chance.choice([0.0, 0.001, 0.01, 1.0])
            if len(worker.under_way) < clients:
                worker.write()
            while worker.under_way and (len(worker.under_way) >= clients or chance.random() < 0.3):
                worker.arrives()
            if chance.random() < 0.02:
                worker.size = chance.randrange(worker.size + 1)
            brought = 1 if name == "XADD" else MOST
            assert worker.size <= CAP + (clients + 1) * brought, seed
        refused += worker.refused
        waited += worker.waited
    assert refused
    assert waited


@pytest.mark.parametrize(("text", "told"), [("HINCRBY k f 1", b":1\r\n"), ("SADD k m", b"-NOPERM no\r\n")])
def test_a_small_collection_and_one_of_no_known_size_are_hardly_looked_at(text: str, told: bytes) -> None:
    caps, waited = rule(sample=0.0), 0
    for i in range(10 * CAP):
        verdict = caps.judge(command(text), at(i / 1000))
        if isinstance(verdict, Procedure):
            waited += 1
            steps = verdict.steps()
            next(steps)
            with pytest.raises(StopIteration) as stop:
                steps.send([told])
            assert isinstance(stop.value.value, Pass)
    assert waited == 9, "once for as many writes as the cap allows members"


def test_writes_inside_a_transaction_are_counted_though_nobody_can_look() -> None:
    caps = rule(sample=0.0)
    for i in range(2 * CAP):
        verdict = caps.judge(command("SADD k m"), at(i / 1000))
        assert isinstance(verdict, Procedure) is (i > CAP), i
        if isinstance(verdict, Procedure):
            assert verdict.otherwise("it is inside MULTI").skipped  # type: ignore[union-attr]  # it passes


def test_a_size_that_is_told_late_has_the_writes_after_it_added() -> None:
    caps = rule(sample=0.99)
    look = caps.judge(command("SADD k m"), at(0))
    assert isinstance(look, Procedure)
    assert not look.waits
    steps = look.steps()
    next(steps)
    for _ in range(100):
        caps.judge(command("SADD k m"), at(0))
    with pytest.raises(StopIteration):
        steps.send([b":%d\r\n" % (CAP - 50)])
    verdict = caps.judge(command("SADD k m"), at(0.1))
    assert isinstance(verdict, Procedure)
    assert verdict.waits
