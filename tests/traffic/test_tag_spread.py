"""Hash tags that put too many keys into one slot are found, and those of users are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from proxy.server.stored.json_form import as_json, from_json
from proxy.traffic.json_views import unusual_tags
from proxy.traffic.tag_spread import MOST_SHAPES, TagSpread, UnusualTags
from proxy.traffic.time_series import TimeSeries
from tests.cli.made_scan import made_scan
from tests.conftest import seeds
from tests.traffic.given import READ
from tests.traffic.test_interval_stats import interval


def why(spread: TagSpread) -> dict[str, str]:
    return {each.shape: each.why for each in spread.unusual()}


@pytest.mark.parametrize("seed", seeds(20, 1000))
def test_good_tags_are_not_found_and_bad_ones_are(seed: int) -> None:
    random = Random(seed)
    users, number = random.sample(range(10**6), 900), 1_500
    made: dict[str, Callable[[], bytes]] = {
        "user:{tag}:cart": lambda: b"user:{%d}:cart" % random.choice(users),
        "log:{tag}:{int}": lambda: b"log:{2026-11-%02d}:%d" % (random.randint(1, 30), random.randrange(10**6)),
        "job:{tag}:{int}": lambda: b"job:{%b}:%d" % (random.choice([b"PENDING", b"DONE"]), random.randrange(10**6)),
        "one{tag}": lambda: b"one{%d}" % random.randrange(10**6),
        "x:{int}": lambda: b"x:%d" % random.randrange(10**6),
    }
    keys = [make() for make in made.values() for _ in range(number)]
    random.shuffle(keys)
    spread = TagSpread()
    for key in keys:
        spread.add(key)
    found = why(spread)
    assert found.keys() == {"log:{tag}:{int}", "job:{tag}:{int}"}
    assert found["log:{tag}:{int}"].startswith("they are dates")
    assert found["job:{tag}:{int}"].startswith("there are 2 tags for all of them")


@pytest.mark.parametrize("seed", seeds(20, 1000))
def test_numbers_that_grow_are_found_in_the_order_of_time(seed: int) -> None:
    random = Random(seed)
    spread, at = TagSpread(), 10**6
    for _ in range(60):
        at += random.randint(0, 3)
        users = [b"user:{%d}:cart" % random.randrange(10**6) for _ in range(5)]
        spread.follow([*users, b"log:{%d}:1" % at, b"log:{%d}:2" % (at - 5)])
    assert why(spread) == {"log:{tag}:{int}": "their numbers grow, so what is used at a time is in one slot"}


def test_it_stays_small() -> None:
    spread = TagSpread()
    for number in range(5_000):
        spread.add(b"%b:{%d}" % (b"".join(b"abcdefghij"[int(d) : int(d) + 1] for d in str(number)), number))
    assert len(spread._shapes) == MOST_SHAPES


def test_a_scan_keeps_them_in_json() -> None:
    tags = [UnusualTags("log:{tag}", 9, "they are dates")]
    assert from_json(as_json(replace(made_scan("a"), tags=tags))).tags == tags


def test_traffic_has_them() -> None:
    series = TimeSeries()
    for second in range(40):
        keys = (b"log:{%d}:x" % (5_000 + second), *(b"u:{%d}" % number for number in range(9)))
        traces = [replace(READ, keys=(key,), at=1000.0 + second) for key in keys]
        series.add(interval(1000.0 + second, *traces))
    assert [(each["shape"], each["why"].partition(",")[0]) for each in unusual_tags(series, 60, 1040.0)] == [
        ("log:{tag}:x", "their numbers grow")
    ]
