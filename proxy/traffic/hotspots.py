"""What is hot or large in the last seconds, by the thresholds of a policy.

- Keys that surely have a share of all uses of keys and a rate. Those of one pattern are found together, since a hundred
  hot products are one story and not a hundred.
- Slots that have both without their hot keys, which are found already.
- Patterns of which a command or a reply was large.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from proxy.commands.slots import slot_of
from proxy.hotpath.slices import Slice
from proxy.traffic.alerts import Alerts
from proxy.traffic.digest import Digest, combined
from proxy.traffic.rings import Rings

SECONDS = 5
"""That are looked at together."""
_STILL = 0.7
"""The part of its thresholds from which on something is not over yet."""


class Kind(StrEnum):
    """What an incident is."""

    HOT_KEY = "hot-key"
    HOT_SLOT = "hot-slot"
    BIG_VALUE = "big-value"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is so now. `about` is the pattern or slot; `key` the busiest, or largest, of `keys`.

    `size` is uses per second, or bytes. What is not `reached` is only still so.
    """

    kind: Kind
    about: str
    key: bytes
    size: float
    keys: int = 1
    reached: bool = True


@dataclass(frozen=True, slots=True)
class Lately:
    """The last seconds: how often keys were used, and slots, and the largest of each pattern."""

    counts: Slice
    slots: Counter[int]
    largest: dict[str, tuple[int, bytes]]


def lately(rings: Rings, until: float) -> Lately:
    """Add up only what is looked at every second."""
    digests = [each for each in rings.seconds() if each.began + 1 > until - SECONDS]
    slots: Counter[int] = Counter()
    for digest in digests:
        slots.update(digest.slots)
    return Lately(combined(each.counts() for each in digests), slots, _largest(digests))


def _largest(digests: Iterable[Digest]) -> dict[str, tuple[int, bytes]]:
    found: dict[str, tuple[int, bytes]] = {}
    for digest in digests:
        for name, figures in digest.patterns.found.items():
            found[name] = max(found.get(name, (0, b"")), (figures.largest, figures.largest_key))
    return found


def find(seen: Lately, alerts: Alerts, pattern_of: Callable[[bytes], str]) -> Iterator[Finding]:
    """Everything that is so now, or still."""
    total = seen.counts.total
    sure = {each.key: each.count - each.error for each in seen.counts.tallies}
    warm = {key: used for key, used in sure.items() if alerts.hot_key.milder(_STILL).reached(used, total, SECONDS)}
    by_pattern: dict[str, list[bytes]] = {}
    for key in sorted(warm, key=lambda each: -warm[each]):
        by_pattern.setdefault(pattern_of(key), []).append(key)
    for pattern, keys in by_pattern.items():
        used = warm[keys[0]]
        reached = alerts.hot_key.reached(used, total, SECONDS)
        yield Finding(Kind.HOT_KEY, pattern, keys[0], used / SECONDS, len(keys), reached)
    yield from _hot_slots(seen, alerts, sure, warm)
    for pattern, (size, key) in seen.largest.items():
        if size >= alerts.big_value:
            yield Finding(Kind.BIG_VALUE, pattern, key, size)


def _hot_slots(seen: Lately, alerts: Alerts, sure: dict[bytes, int], warm: dict[bytes, int]) -> Iterator[Finding]:
    total = sum(seen.slots.values())
    told: Counter[int] = Counter()
    for key, used in warm.items():
        told[slot_of(key)] += used
    for slot, used in seen.slots.items():
        rest = used - told[slot]
        if alerts.hot_slot.milder(_STILL).reached(rest, total, SECONDS):
            keys = [key for key in sure if slot_of(key) == slot and key not in warm]
            key = max(keys, key=lambda each: sure[each], default=b"")
            yield Finding(
                Kind.HOT_SLOT,
                str(slot),
                key,
                rest / SECONDS,
                len(keys),
                alerts.hot_slot.reached(rest, total, SECONDS),
            )
