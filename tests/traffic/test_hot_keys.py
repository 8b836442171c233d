"""The counters and windows find what is hot, and nothing else: on fixed streams, with the stream's own clock."""

import random
from collections import Counter
from itertools import accumulate

from proxy.form import FORM
from proxy.hotpath.counters import Counters
from proxy.traffic import answers
from proxy.traffic.alerts import Hot
from proxy.traffic.digest import Digest
from proxy.traffic.evidence import moment
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.rings import Rings
from proxy.traffic.windows import Windows

KEYS = 1_000_000
PER_SECOND = 100_000
SECONDS = 100 if FORM == "compiled" else 6
"""Ten million events compiled; plain, where each takes fifty times as long, as many as a test should take."""


class Stream:
    """Keys go by, a second at a time."""

    def __init__(self) -> None:
        self.now = 6000.0
        self.rings = Rings()
        self._counters = Counters()
        self._windows = Windows(self._counters, self.now)

    def second(self, keys: list[bytes]) -> None:
        for key in keys:
            self._counters.add(key, 0, len(key), False)
        self.now += 1.0
        self._windows.rotate(self.now)
        digest = Digest(self.now - 1.0, 1.0)
        digest.slices = self._windows.fresh()
        self.rings.add(digest)

    def hot(self, window: int) -> list[str]:
        """The keys that are called hot."""
        counts = answers.counted(self.rings, window, self.now)
        told = answers.hot_keys(self.rings, counts, 50, "all", self.now, Redaction(Redact.NONE), Hot())
        return [key["key"] for key in told["keys"] if key["hot"]]


def test_the_busiest_of_a_million_keys_are_found_and_counted() -> None:
    chance = random.Random(20)
    weights = list(accumulate(1 / rank**0.99 for rank in range(1, KEYS + 1)))
    names = [b"key:%d" % n for n in range(KEYS)]
    truth: Counter[bytes] = Counter()
    stream = Stream()
    for _ in range(SECONDS):
        keys = chance.choices(names, cum_weights=weights, k=PER_SECOND)
        truth.update(keys)
        stream.second(keys)
    counted = stream.rings.window(600, stream.now).counts()
    found = {tally.key: tally for tally in counted.tallies}
    busiest = truth.most_common(20)
    assert counted.total == SECONDS * PER_SECOND
    assert {key for key, _ in busiest} == {tally.key for tally in counted.tallies[:20]}
    for key, count in busiest:
        tally = found[key]
        assert tally.count - tally.error <= count <= tally.count
        assert abs(tally.count - count) <= 0.01 * count


def test_what_the_busiest_keys_did_second_by_second_and_before_in_tens() -> None:
    stream = Stream()
    for second in range(90):
        stream.second([b"steady"] * 2 + [b"late"] * (9 if second >= 80 else 0))
    told = answers.pasts(stream.rings, answers.counted(stream.rings, 60, stream.now), 10, Redaction(Redact.NONE))
    rates = {key["key"]: key["rates"] for key in told["keys"]}
    assert list(rates) == ["steady", "late"]
    assert rates["steady"] == [2.0] * len(told["at"])
    assert rates["late"] == [0.0] * (len(told["at"]) - 9) + [9.0] * 9, "the newest second is still growing"
    assert told["at"][0] == moment(stream.now - 90)
    assert told["at"][-1] == moment(stream.now - 2)


def test_a_key_that_jumps_is_hot_within_two_seconds_and_uniform_traffic_never_is() -> None:
    chance = random.Random(21)
    names = [b"key:%d" % n for n in range(50_000)]
    stream = Stream()
    for _ in range(12):
        stream.second(chance.choices(names, k=20_000))
        assert stream.hot(10) == []
    for _ in range(2):
        stream.second([*chance.choices(names, k=16_000), *[b"jumped"] * 4_000])
    assert stream.hot(2) == ["jumped"]
    before, since = answers.changed(answers.history(stream.rings.seconds(), stream.now), "jumped", 4_000)
    assert since == stream.now - 2
    assert before is not None
    assert before < 100
