"""The checker of histories finds what must not be, and nothing else.

Proves: each rule is broken by a made-up history that is right but for one read; histories that Redis itself could have
made are clean, among them those with reads that tell little (EXISTS), with TTLs, and with writes whose end is unknown;
and random right histories stay clean, while an older value put into one of them is found.
"""

from __future__ import annotations

import random
from math import inf

import pytest

from tests.coherence.history import Bounds, Read, Register, Report, Rule, Seen, Some, Trail, Version, Wrote, check
from tests.conftest import seeds

BOUNDS = Bounds(lag=1.0)


class Made:
    """A made-up history: register ``k`` holds ``a`` from 10 on, and ``b`` from 20 on."""

    def __init__(self) -> None:
        self.register = Register("k")
        self.a = Version(b"a", begins=10.0, certain=10.1)
        self.b = Version(b"b", begins=20.0, certain=20.1)
        self.register.write(self.a)
        self.register.write(self.b)
        self.trails: list[Trail] = []

    def trail(self, *events: Wrote | Read) -> Trail:
        self.trails.append(Trail(f"trail {len(self.trails)}", list(events)))
        return self.trails[-1]

    def wrote(self, version: Version) -> Wrote:
        return Wrote(self.register, version)

    def read(self, seen: Seen, sent: float, received: float = 0.0) -> Read:
        return Read(self.register, seen, sent, received or sent + 0.05, "GET")

    def check(self, bounds: Bounds = BOUNDS) -> Report:
        return check(self.trails, bounds)

    def rules(self, bounds: Bounds = BOUNDS) -> list[Rule]:
        return [anomaly.rule for anomaly in self.check(bounds).anomalies]


def test_right_reads_are_clean() -> None:
    made = Made()
    made.trail(made.wrote(made.a), made.read(b"a", 11.0), made.read(b"a", 20.01), made.read(b"b", 20.02))
    made.trail(made.read(None, 9.0), made.read(b"a", 10.01), made.read(b"b", 20.5), made.wrote(made.b))
    assert made.rules() == []
    assert made.check().reads == 6


def test_an_own_write_that_is_missed() -> None:
    made = Made()
    made.trail(made.wrote(made.b), made.read(b"a", 20.2))
    assert made.rules() == [Rule.OWN_WRITE]


def test_an_own_write_that_is_missed_in_the_same_pipeline() -> None:
    """Before its acknowledgement has come, too."""
    made = Made()
    made.trail(made.wrote(made.b), made.read(b"a", 20.0, 20.1))
    assert made.rules() == [Rule.OWN_WRITE]


def test_back_in_time() -> None:
    made = Made()
    made.trail(made.read(b"b", 20.01), made.read(b"a", 20.02))
    assert made.rules() == [Rule.BACK]


def test_back_to_a_missing_key() -> None:
    made = Made()
    made.trail(made.read(b"a", 10.01), made.read(None, 10.02))
    assert made.rules() == [Rule.BACK]


def test_a_value_that_nobody_has_written() -> None:
    made = Made()
    made.trail(made.read(b"c", 20.5))
    assert made.rules() == [Rule.UNWRITTEN]


def test_a_value_before_it_was_written() -> None:
    made = Made()
    made.trail(made.read(b"b", 19.0))
    assert made.rules() == [Rule.TOO_SOON]


def test_an_old_value_behind_a_message() -> None:
    made = Made()
    made.b.published = 20.2
    made.trail(made.read(b"a", 20.19), made.read(b"a", 20.21))
    assert made.rules() == [Rule.PUBLISHED]
    assert made.rules(Bounds(lag=1.0, behind_messages=5.0)) == []


def test_an_old_value_behind_the_message_of_a_later_write() -> None:
    made = Made()
    made.register.write(Version(b"c", begins=30.0, certain=30.1, published=30.2))
    made.trail(made.read(b"b", 30.3))
    assert made.rules() == [Rule.PUBLISHED]


def test_older_than_the_bound() -> None:
    made = Made()
    made.trail(made.read(b"a", 21.0), made.read(b"a", 21.2))
    assert made.rules() == [Rule.BOUND]
    assert made.rules(Bounds(lag=5.0)) == []


def expiring() -> tuple[Made, Version]:
    """``b`` has a TTL that ends between 25.0 and 25.1."""
    made = Made()
    end = Version(None, begins=25.0, certain=25.1, expiry=True)
    made.register.write(end)
    return made, end


def test_after_its_ttl() -> None:
    made, _ = expiring()
    made.trail(made.read(b"b", 25.05), made.read(b"b", 25.11))
    assert made.rules() == [Rule.EXPIRED]


def test_the_bound_of_invalidations_is_none_for_ttls() -> None:
    made, _ = expiring()
    made.trail(made.read(b"b", 25.2))
    assert made.rules(Bounds(lag=5.0, behind_messages=5.0)) == [Rule.EXPIRED]


def test_missing_before_its_ttl() -> None:
    made, _ = expiring()
    made.trail(made.read(None, 24.0))
    made.trail(made.read(None, 24.98, 25.01))
    assert made.rules() == [Rule.NOT_NOW]


def test_back_behind_its_ttl() -> None:
    made, _ = expiring()
    made.trail(made.read(None, 25.01), made.read(b"b", 25.02))
    assert made.rules() == [Rule.BACK]


def test_a_read_that_tells_little() -> None:
    """EXISTS: each read takes the earliest version that fits, so that a later read is not called old."""
    made, _ = expiring()
    made.trail(made.read(Some.VALUE, 20.05), made.read(b"b", 20.06), made.read(Some.VALUE, 21.0), made.read(None, 25.2))
    assert made.rules() == []
    made.trail(made.read(Some.VALUE, 25.2))
    made.trail(made.read(None, 20.5))
    assert made.rules() == [Rule.EXPIRED, Rule.NOT_NOW]


def test_a_write_without_an_answer_may_have_run() -> None:
    made = Made()
    made.register.write(Version(b"c", begins=30.0))
    made.trail(made.read(b"b", 90.0), made.read(b"c", 91.0))
    made.trail(made.read(b"b", 92.0))
    assert made.rules() == []
    made.trail(made.read(b"c", 90.0), made.read(b"b", 90.1))
    assert made.rules() == [Rule.BACK]


def test_nothing_is_known_behind_such_a_write_and_another() -> None:
    made = Made()
    made.register.known_until = 40.0
    made.trail(made.read(b"a", 41.0), made.read(None, 42.0), made.read(b"c", 43.0))
    assert made.rules() == [Rule.UNWRITTEN]


def test_how_late_reads_were() -> None:
    made = Made()
    made.trail(made.read(b"a", 20.6), made.read(b"b", 20.7))
    assert made.check().late == [pytest.approx(0.5)]


@pytest.mark.parametrize("seed", seeds(20))
def test_random_histories(seed: int) -> None:
    """What Redis could have answered is clean; with an older value in one place, it is not."""
    chance = random.Random(seed)
    register, now, trails = Register("k"), 0.0, [Trail(f"trail {number}") for number in range(4)]
    holds: list[Version] = [register.versions[0]]
    for number in range(200):
        now += 1.0
        trail = chance.choice(trails)
        if chance.random() < 0.3:
            value = None if chance.random() < 0.2 else b"%d" % number
            version = Version(value, now, now + 0.5, now + 0.7 if chance.random() < 0.3 else inf)
            register.write(version)
            holds.append(version)
            trail.events.append(Wrote(register, version))
        else:
            value = holds[-1].value
            seen = Some.VALUE if value is not None and chance.random() < 0.1 else value
            trail.events.append(Read(register, seen, now, now + 0.5, "GET"))
    assert check(trails, BOUNDS).anomalies == []
    old = next(version.value for version in holds if version.value is not None)
    chance.choice(trails).events.append(Read(register, old, now + 3, now + 4, "GET"))
    assert len(check(trails, BOUNDS).anomalies) == 1
