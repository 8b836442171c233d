"""The check of histories finds each kind of fault, and none where replicas are used as they should be."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.conftest import seeds
from tests.replicas.history import NOTHING, History, Read, Write

OLDEST = 2.0


def written(*numbers: int, key: str = "k", client: str = "w", acknowledged: bool = True) -> list[Write]:
    """A write a second: number n is sent at n and acknowledged 0.1 s later."""
    return [Write(client, key, n, n, n + 0.1 if acknowledged else None) for n in numbers]


def read(number: int, at: float, key: str = "k", client: str = "r") -> Read:
    return Read(client, key, number, at, at + 0.1)


def problems(*steps: Write | Read, oldest: float = OLDEST, lost: tuple[tuple[str, int], ...] = ()) -> list[str]:
    history = History()
    for step in steps:
        history.add(step)
    return history.problems(oldest, lost)


def test_a_read_may_be_as_old_as_the_bound_and_no_older() -> None:
    assert problems(*written(1, 2, 3), read(2, 5.05)) == []
    assert problems(*written(1, 2, 3), read(2, 5.2)) == [
        "r reads 2 of k at 5.200, 2.100 s after a newer number was acknowledged; 3 was due"
    ]
    assert problems(*written(1), read(NOTHING, 3.0)) == []
    assert len(problems(*written(1), read(NOTHING, 3.2))) == 1


def test_a_write_without_an_acknowledgement_is_never_due_but_may_be_seen() -> None:
    lost = written(2, acknowledged=False)
    assert problems(*written(1), *lost, read(1, 100.0)) == []
    assert problems(*written(1), *lost, read(2, 2.05)) == []
    assert problems(*written(1), *lost, read(2, 2.05), read(1, 3.0)) == ["r reads 1 of k at 3.000, and had seen 2"]


def test_no_client_goes_back() -> None:
    assert problems(*written(1, 2, 3), read(2, 3.2), read(1, 3.3)) == ["r reads 1 of k at 3.300, and had seen 2"]
    assert problems(*written(1, 2, 3), read(2, 3.2), read(1, 3.3, client="s")) == []


def test_a_client_goes_back_in_no_other_key_either() -> None:
    steps: list[Write | Read] = [*written(1, 2, key="a"), *written(3, key="b")]
    assert problems(*steps, read(3, 3.2, key="b"), read(2, 3.3, key="a")) == []
    (found,) = problems(*steps, read(3, 3.2, key="b"), read(1, 3.3, key="a"))
    assert found.startswith("r reads 1 of a at 3.300, and had seen or made a write")


def test_streams_promise_nothing_about_each_other() -> None:
    history = History(stream=lambda key: key)
    steps: list[Write | Read] = [*written(1, 2, key="a"), *written(3, key="b")]
    for step in (*steps, read(3, 3.2, key="b"), read(1, 3.3, key="a")):
        history.add(step)
    assert history.problems(OLDEST) == []


def test_a_client_sees_its_own_writes() -> None:
    mine = written(1, 2, client="r")
    assert problems(*mine, read(2, 2.2)) == []
    assert problems(*mine, read(1, 2.2)) == ["r reads 1 of k at 2.200, and had written 2 itself"]


def test_a_client_sees_all_that_came_before_its_own_write() -> None:
    steps: list[Write | Read] = [*written(1, key="a"), *written(2, key="b", client="r")]
    (found,) = problems(*steps, read(NOTHING, 2.2, key="a"))
    assert found.startswith("r reads 0 of a at 2.200, and had seen or made a write")


def test_what_nobody_has_written_is_found() -> None:
    assert problems(*written(1), read(7, 3.0)) == ["r reads 7 of k at 3.000, which nobody had written"]
    assert problems(*written(1, 5), read(5, 3.0)) == ["r reads 5 of k at 3.000, which nobody had written"]


def test_what_a_failover_has_lost_does_not_count() -> None:
    steps: list[Write | Read] = [*written(1, 2, 3), read(3, 3.2), read(1, 9.0)]
    assert len(problems(*steps)) == 1
    assert problems(*steps, lost=(("k", 2), ("k", 3))) == []


def test_numbers_only_grow() -> None:
    with pytest.raises(ValueError, match="2 is not larger"):
        problems(*written(2), *written(2))


Choice = Callable[["Client", "Play"], int]
"""Which length of the log the client's next read sees."""


@dataclass(slots=True)
class Client:
    """What Keyrail has to remember of a client."""

    replica: int
    floor: int = 0


class Play:
    """A primary, two replicas that lag by up to a second and a half, and clients that read as `choice` says."""

    def __init__(self, choice: Choice, seed: int) -> None:
        self.random = random.Random(seed)
        self.log: list[tuple[str, int]] = []
        self.times: list[float] = []
        self.offsets = [0, 0]
        self.now = 0.0
        self.history = History()
        self.clients = {f"c{n}": Client(n % 2) for n in range(4)}
        self.choice = choice

    def run(self) -> list[str]:
        for number in range(1, 400):
            self.now += self.random.random() / 10
            self.catch_up()
            name = self.random.choice(list(self.clients))
            client = self.clients[name]
            if self.random.random() < 0.3:
                key = f"k:{name}"
                self.log.append((key, number))
                self.times.append(self.now)
                client.floor = len(self.log)
                self.history.add(Write(name, key, number, self.now, self.now + 0.001))
            else:
                key = f"k:{self.random.choice(list(self.clients))}"
                length = self.choice(client, self)
                seen = max((number for its, number in self.log[:length] if its == key), default=NOTHING)
                self.history.add(Read(name, key, seen, self.now, self.now + 0.001))
        return self.history.problems(1.0)

    def catch_up(self) -> None:
        """Each replica gets something, in bursts, and never all of the last moment."""
        for replica, offset in enumerate(self.offsets):
            if self.random.random() < 0.3:
                self.offsets[replica] = self.random.randint(offset, len(self.log))

    def lag(self, replica: int) -> float:
        offset = self.offsets[replica]
        return 0.0 if offset == len(self.log) else self.now - self.times[offset]


def right(client: Client, play: Play) -> int:
    offset = play.offsets[client.replica]
    if offset >= client.floor and play.lag(client.replica) <= 0.9:
        client.floor = offset
        return offset
    client.floor = len(play.log)
    return client.floor


def any_replica(client: Client, play: Play) -> int:
    replica = play.random.randrange(2)
    return play.offsets[replica] if play.lag(replica) <= 0.9 else len(play.log)


def own_replica_whatever_it_wrote(client: Client, play: Play) -> int:
    return play.offsets[client.replica] if play.lag(client.replica) <= 0.9 else len(play.log)


def lag_unseen(client: Client, play: Play) -> int:
    offset = play.offsets[client.replica]
    client.floor = max(client.floor, offset) if offset >= client.floor else len(play.log)
    return client.floor


@pytest.mark.parametrize("seed", seeds(20))
def test_replicas_that_are_used_as_they_should_be_show_no_fault(seed: int) -> None:
    assert Play(right, seed).run() == []


@pytest.mark.parametrize(
    ("choice", "fault"),
    [
        (any_replica, "had seen"),
        (own_replica_whatever_it_wrote, "itself"),
        (lag_unseen, "after a newer number was acknowledged"),
    ],
)
def test_replicas_that_are_used_wrongly_are_caught(choice: Choice, fault: str) -> None:
    assert any(fault in problem for seed in range(20) for problem in Play(choice, seed).run())
