"""What tests of changes share: a journal in memory, and a driver of walks that loses replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random

from proxy.server.stored.changes.model import Change, Outcome, Wish
from proxy.server.stored.changes.node import Changes
from proxy.server.stored.model import NodeFigures
from proxy.server.stored.node_walk import LostReplyError, NodeWalk, OtherProcessError, Tally
from proxy.server.stored.seen import SeenKeys
from proxy.server.stored.totals import Totals
from tests.server.stored.fake_servers import FakeJudge, FakeServer


class Notes:
    """A journal in memory."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.outcomes: dict[bytes, list[Outcome]] = {}

    def will(self, _node: str, _database: int, wishes: Sequence[Wish]) -> int:
        self.batches.append([wish.key.name for wish in wishes])
        return len(self.batches) - 1

    def done(self, batch: int, outcomes: Sequence[tuple[Wish, Outcome]]) -> None:
        assert [wish.key.name for wish, _ in outcomes] == self.batches[batch]
        for wish, outcome in outcomes:
            self.outcomes.setdefault(wish.key.name, []).append(outcome)

    def ended(self, outcome: Outcome) -> set[bytes]:
        """The keys with this outcome at last."""
        return {key for key, found in self.outcomes.items() if found[-1] is outcome}


class Run:
    """A change of fake servers. ``before`` is called before each request; ``trouble`` says, for a request that is sent
    once, which error comes in place of its replies, and ``runs`` whether it was run all the same."""

    def __init__(self, change: Change, *, limit: int | None = None, dry: bool = False) -> None:
        self.notes = Notes()
        self.changes = Changes(change, None if dry else self.notes, limit)
        self.tally = Tally(FakeJudge(), Totals(lambda key: key.decode("latin-1")), SeenKeys(int))
        self.tally.concerns = self.changes.concerns
        self.figures = NodeFigures("one")
        self.before: Callable[[], object] = lambda: None
        self.trouble: Callable[[], Exception | None] = lambda: None
        self.runs: Callable[[], bool] = lambda: True

    def walk(self, server: FakeServer, moved: Callable[[int], None] = lambda _: None) -> Iterator[None]:
        """Step by step."""
        walking = NodeWalk(self.tally, self.figures, 0, moved, self.changes.at(self.tally, self.figures, moved)).walk()
        try:
            request = next(walking)
            while True:
                yield
                self.before()
                trouble = self.trouble()
                if trouble is None or isinstance(trouble, LostReplyError) > request.once:
                    request = walking.send(server.answer(request))
                    continue
                if request.once and self.runs():
                    server.answer(request)
                server.lose_connection()
                request = walking.throw(trouble)
        except StopIteration:
            return

    def go(self, server: FakeServer) -> None:
        """To the end."""
        for _ in self.walk(server):
            pass

    @property
    def outcomes(self) -> Counter[Outcome]:
        return +self.changes.found.outcomes


def random_trouble(random: Random, chance: float) -> Exception | None:
    """Now and then, the reply or the whole process is lost."""
    if random.random() >= chance:
        return None
    return random.choice([LostReplyError, OtherProcessError])()
