"""Keys that are hot and values that are large in the last seconds, by the thresholds of a policy.

- Keys that certainly reach both thresholds: a share of all uses of keys, and a rate. Keys of one pattern are one
  finding: a hundred hot products are one incident.
- Slots that reach both thresholds without the uses of their hot keys.
- Patterns with a large command or reply.
- Clients that hinder others (``traffic.misuse``).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from proxy.commands.slots import slot_of
from proxy.traffic.alerts import INCIDENT_WINDOW, Alerts, Misuse
from proxy.traffic.client_ids import ClientName, id_of
from proxy.traffic.hot_keys import HotKey, HotKeys
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.misuse import ClientFigures, busiest, figures_of, loops_over_keys, reconnects
from proxy.traffic.time_series import TimeSeries

_Largest: TypeAlias = tuple[int, bytes, int]
"""Bytes, the key, and the bytes at Redis where the value is stored compressed, else 0."""
_STILL = 0.7
"""An incident is not over while this part of its thresholds is reached."""


class IncidentKind(StrEnum):
    """The kind of an incident."""

    HOT_KEY = "hot-key"
    HOT_SLOT = "hot-slot"
    BIG_VALUE = "big-value"
    KEYS_LOOP = "keys-loop"
    RECONNECTS = "reconnects"
    BUSY_CLIENT = "busy-client"


CLIENT_KINDS = frozenset({IncidentKind.KEYS_LOOP, IncidentKind.RECONNECTS, IncidentKind.BUSY_CLIENT})
"""Incidents about clients."""


@dataclass(frozen=True, slots=True)
class Hotspot:
    """One finding of the last seconds. `about` is the pattern, the slot or the client's id; `key` the busiest, or
    largest, of `keys`; `client` has the figures of a client. `stored` are a large value's bytes at Redis if it is
    stored compressed, else 0.

    `size` is uses, KEYS or connections per second, seconds of a second, or bytes. If not `reached`, it continues an
    open incident below its thresholds.
    """

    kind: IncidentKind
    about: str
    key: bytes
    size: float
    keys: int = 1
    reached: bool = True
    client: ClientFigures | None = None
    stored: int = 0


@dataclass(frozen=True, slots=True)
class Lately:
    """The last seconds: the busiest keys, how often slots were used, the largest of each pattern, and clients."""

    hot_keys: HotKeys
    slots: Counter[int]
    largest: dict[str, _Largest]
    clients: Mapping[ClientName, ClientFigures]


def lately(time_series: TimeSeries, now: float) -> Lately:
    """Add up only the figures that are searched every second."""
    intervals = time_series.last(INCIDENT_WINDOW, now)
    slots: Counter[int] = Counter()
    for interval in intervals:
        slots.update(interval.slots)
    clients = figures_of(intervals, len(intervals))
    return Lately(time_series.hot_keys(INCIDENT_WINDOW, now), slots, _largest(intervals), clients)


def _largest(intervals: Iterable[IntervalStats]) -> dict[str, _Largest]:
    found: dict[str, _Largest] = {}
    for interval in intervals:
        for name, figures in interval.patterns.found.items():
            its = figures.largest, figures.largest_key, figures.largest_stored
            found[name] = max(found.get(name, its), its)
    return found


def find(seen: Lately, alerts: Alerts, pattern_of: Callable[[bytes], str]) -> Iterator[Hotspot]:
    """All findings, those that only continue an incident included."""
    milder = alerts.hot_key.milder(_STILL)
    warm = [key for key in seen.hot_keys.keys if seen.hot_keys.reached(key, milder)]
    yield from _hot_keys(seen.hot_keys, alerts, warm, pattern_of)
    yield from _hot_slots(seen, alerts, warm)
    for pattern, (size, key, stored) in seen.largest.items():
        if size >= alerts.big_value:
            yield Hotspot(IncidentKind.BIG_VALUE, pattern, key, size, stored=stored)
    yield from _clients(seen.clients, alerts.misuse)


def _clients(figures: Mapping[ClientName, ClientFigures], least: Misuse) -> Iterator[Hotspot]:
    still = least.milder(_STILL)
    for name, each in figures.items():
        if loops_over_keys(each, still):
            rate, reached = each.keys.count / each.seconds, loops_over_keys(each, least)
            yield Hotspot(IncidentKind.KEYS_LOOP, id_of(name), b"", rate, 1, reached, each)
        if reconnects(each, still):
            rate, reached = each.ended.connections / each.seconds, reconnects(each, least)
            yield Hotspot(IncidentKind.RECONNECTS, id_of(name), b"", rate, 1, reached, each)
    reached_by = {each.name for each in busiest(figures, least)}
    for each in busiest(figures, still):
        yield Hotspot(IncidentKind.BUSY_CLIENT, id_of(each.name), b"", each.busy, 1, each.name in reached_by, each)


def _hot_keys(
    seen: HotKeys, alerts: Alerts, warm: list[HotKey], pattern_of: Callable[[bytes], str]
) -> Iterator[Hotspot]:
    by_pattern: dict[str, list[HotKey]] = {}
    for key in warm:
        by_pattern.setdefault(pattern_of(key.key), []).append(key)
    for pattern, keys in by_pattern.items():
        busiest = keys[0]
        reached = seen.reached(busiest, alerts.hot_key)
        yield Hotspot(IncidentKind.HOT_KEY, pattern, busiest.key, busiest.rate, len(keys), reached)


def _hot_slots(seen: Lately, alerts: Alerts, warm: list[HotKey]) -> Iterator[Hotspot]:
    total, seconds = sum(seen.slots.values()), seen.hot_keys.judged_seconds
    told: Counter[int] = Counter()
    for key in warm:
        told[slot_of(key.key)] += key.certain
    for slot, used in seen.slots.items():
        rest = used - told[slot]
        if alerts.hot_slot.milder(_STILL).reached(rest, total, seconds):
            keys = [key.key for key in seen.hot_keys.keys if slot_of(key.key) == slot and key not in warm]
            reached = alerts.hot_slot.reached(rest, total, seconds)
            yield Hotspot(
                IncidentKind.HOT_SLOT, str(slot), keys[0] if keys else b"", rest / seconds, len(keys), reached
            )
