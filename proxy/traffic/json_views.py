"""Windows of traffic as JSON, for the admin port, the page and ``keyrail top``.

Rates are per second, over the known part of a window. Shares are parts of all uses of keys (for clients: of all
commands). Unknown values are null.

Where the policy has tenants, the ``tenant`` of a key stands beside it, with its own name: null for a key of none.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isinf
from typing import Any

from proxy.commands.slots import SLOTS, slot_of
from proxy.traffic.alerts import Hot
from proxy.traffic.client_ids import id_of, name_of
from proxy.traffic.hot_keys import HotKey
from proxy.traffic.interval_stats import READS_OF_RUN, IntervalStats, SlowCommand
from proxy.traffic.key_figures import KeyFigures, PatternFigures, Volume
from proxy.traffic.key_past import KeyHistory
from proxy.traffic.key_text import shown
from proxy.traffic.labels import Client, moment
from proxy.traffic.misuse import ClientFigures, figures_of
from proxy.traffic.redaction import Redaction
from proxy.traffic.tag_spread import TagSpread
from proxy.traffic.time_series import TimeSeries

CELLS = 256
"""The number of cells of the heat map; each has 64 slots."""

_CLIENT = ("app", "user", "client_name", "library", "address")
_CLIENTS_SHOWN = 10
_KEYS_OF_SLOT = 3
_FOLLOWED = 20
_LEAST_TAGGED = 100
"""A window has the 400 busiest keys."""


_OF_ONE_KEY = ("count", "error", "reads", "writes", "cached_share", "replica_share", "rate")
"""Of what is told of a key: what says nothing about others."""


def hot_keys(
    time_series: TimeSeries, window: int, count: int, by: str, now: float, redaction: Redaction, hot: Hot
) -> dict[str, Any]:
    """The busiest keys of a window, by `all`, `reads`, `writes` or `bytes`, with the clients that use them.

    ``at`` names the snapshot: the figures of one window and snapshot are the same wherever they are shown.
    """
    found = time_series.hot_keys(window, now)
    interval = time_series.window(window, now)
    figures = interval.keys.found
    ranked = sorted(found.keys, key=lambda key: -_measure(key, figures.get(key.key), by))[:count]
    past = KeyHistory(time_series, time_series.newest, (key.key for key in ranked))
    lately = _lately(time_series)
    return {
        "window": window,
        "age": round(found.age(now), 3),
        "at": moment(found.taken),
        "rate": found.rate,
        "keys": [
            {
                **_counted(key, redaction),
                **_carried(figures.get(key.key), interval.seconds),
                "ttl": _ttl(figures.get(key.key), now),
                "now": round(lately.get(key.key, 0.0), 1),
                "slot": slot_of(key.key),
                "hot": found.reached(key, hot),
                **_story(past, key, figures.get(key.key)),
            }
            for key in ranked
        ],
    }


def hot_keys_of_tenant(
    time_series: TimeSeries, window: int, count: int, by: str, now: float, redaction: Redaction, prefix: bytes
) -> dict[str, Any]:
    """The same about the keys behind this prefix, under the names that stand there, and nothing about all keys."""
    found, interval = time_series.hot_keys(window, now), time_series.window(window, now)
    figures = interval.keys.found
    own = [key for key in found.keys if key.key.startswith(prefix)]
    lately = _lately(time_series)
    return {
        "window": window,
        "age": round(found.age(now), 3),
        "at": moment(found.taken),
        "keys": [
            {
                "key": redaction.of(key.key.removeprefix(prefix)),
                **{name: value for name, value in _counted(key, redaction).items() if name in _OF_ONE_KEY},
                **{
                    name: value
                    for name, value in _carried(figures.get(key.key), interval.seconds).items()
                    if name != "pattern"
                },
                "ttl": _ttl(figures.get(key.key), now),
                "now": round(lately.get(key.key, 0.0), 1),
            }
            for key in sorted(own, key=lambda key: -_measure(key, figures.get(key.key), by))[:count]
        ],
    }


def pasts(time_series: TimeSeries, window: int, count: int, now: float, redaction: Redaction) -> dict[str, Any]:
    """The rates of the busiest keys of a window over time, at most ten minutes back; the last minute second by second.

    An interval in which a key was not among the busiest counts as 0 for it.
    """
    recent = time_series.seconds()[:-1]
    older = [ten for ten in time_series.tens() if recent and ten.began + ten.seconds <= recent[0].began]
    busiest = time_series.hot_keys(window, now).keys[:count]
    rates = {each.key: [0.0] * len(older + recent) for each in busiest}
    for i, interval in enumerate(older + recent):
        for key_count in interval.counts().key_counts:
            if key_count.key in rates:
                rates[key_count.key][i] = round(key_count.certain / interval.seconds, 1)
    return {
        "at": [moment(interval.began) for interval in older + recent],
        "keys": [{"key": redaction.of(key), "slot": slot_of(key), "rates": its} for key, its in rates.items()],
    }


def _lately(time_series: TimeSeries) -> dict[bytes, float]:
    """The certain rates of the busiest keys in the last two whole seconds."""
    seconds = time_series.seconds()[-3:-1]
    summed: dict[bytes, float] = {}
    for key_count in (key_count for second in seconds for key_count in second.counts().key_counts):
        summed[key_count.key] = summed.get(key_count.key, 0.0) + key_count.certain / len(seconds)
    return summed


def _measure(key: HotKey, figures: KeyFigures | None, by: str) -> int:
    if by == "reads":
        return key.reads
    if by == "writes":
        return key.writes
    if by == "bytes":
        return 0 if figures is None else figures.volume.bytes_in + figures.volume.bytes_out
    return key.certain


def _counted(key: HotKey, redaction: Redaction) -> dict[str, Any]:
    return {
        "key": (told := redaction.of(key.key)),
        **redaction.beside(key.key),
        "count": key.count,
        "error": key.error,
        "share": key.share,
        "reads": key.reads,
        "writes": key.writes,
        "cached_share": key.cached_share,
        "replica_share": key.replica_share,
        "whole": told == shown(key.key),
        "rate": key.rate,
    }


def _carried(figures: KeyFigures | None, seconds: float) -> dict[str, Any]:
    volume = Volume() if figures is None else figures.volume
    return {
        "bytes_in": round(volume.bytes_in / seconds),
        "bytes_out": round(volume.bytes_out / seconds),
        "hit_ratio": _hit_ratio(volume),
        "pattern": None if figures is None else figures.pattern,
    }


def _ttl(figures: KeyFigures | None, now: float) -> float | None:
    """The TTL of a key in seconds, as Redis last reported it; -1 for a key without a TTL."""
    if figures is None or figures.until == 0.0:
        return None
    return -1 if isinf(figures.until) else round(max(0.0, figures.until - now), 3)


def _story(past: KeyHistory, key: HotKey, figures: KeyFigures | None) -> dict[str, Any]:
    its = past.of(key.key, key.rate)
    return {
        "before": None if its.before is None else round(its.before, 1),
        "since": None if its.since is None else moment(its.since),
        **_clients_of(figures, None if its.since is None else past.clients_before(its)),
    }


def _clients_of(figures: KeyFigures | None, before: frozenset[Client] | None) -> dict[str, Any]:
    """The clients of a key; those that were not there before it became busy are new."""
    if figures is None:
        return {"clients": [], "other_clients": 0.0}
    total = sum(figures.clients.values()) + figures.other_clients
    ranked = figures.ranked_clients()
    shown = [
        {**named(client), "share": round(weight / total, 4), "new": before is not None and client not in before}
        for client, weight in ranked[:_CLIENTS_SHOWN]
    ]
    rest = figures.other_clients + sum(weight for _, weight in ranked[_CLIENTS_SHOWN:])
    return {"clients": shown, "other_clients": round(rest / total, 4) if total else 0.0}


def client_of(told: Mapping[str, str] | None) -> Client:
    """The client of such an object; empty for None."""
    return () if told is None else tuple(str(told[field]) for field in _CLIENT)


def named(client: Client) -> dict[str, str]:
    """A client as an object."""
    return {"id": id_of(name_of(client)), **dict(zip(_CLIENT, client, strict=True))}


def _hit_ratio(volume: Volume) -> float | None:
    return None if volume.measured == 0 else round(1 - volume.missed / volume.measured, 4)


def patterns(time_series: TimeSeries, window: int, count: int, now: float, redaction: Redaction) -> dict[str, Any]:
    """The busiest patterns of keys: entries of the schema, and shapes of the keys outside of it.

    ``ttl_share`` is the share with a TTL of the keys that Keyrail asked about. ``runs`` are runs of eight consecutive
    reads of single keys; a longer run counts as several.
    """
    interval = time_series.window(window, now)
    ranked, seconds = interval.patterns.ranked(), interval.seconds
    rest = ranked[count:]
    return {
        "window": window,
        "age": round(max(0.0, now - time_series.newest), 3),
        "patterns": [
            _pattern(name, name in interval.schema, each, seconds, redaction) for name, each in ranked[:count]
        ],
        "other": {
            "patterns": interval.patterns.other_names + len(rest),
            "rate": round((interval.patterns.other + sum(each.weight for _, each in rest)) / seconds, 1),
        },
    }


def _pattern(name: str, schema: bool, figures: PatternFigures, seconds: float, redaction: Redaction) -> dict[str, Any]:
    volume = figures.volume
    return {
        "pattern": name,
        "schema": schema,
        "app": figures.app,
        "rate": round(figures.weight / seconds, 1),
        "reads": round(volume.reads / seconds, 1),
        "writes": round(volume.writes / seconds, 1),
        "bytes_in": round(volume.bytes_in / seconds),
        "bytes_out": round(volume.bytes_out / seconds),
        "hit_ratio": _hit_ratio(volume),
        "ttl_share": round(figures.expiring / figures.asked, 4) if figures.asked else None,
        "largest": figures.largest,
        "largest_key": redaction.of(figures.largest_key),
        "largest_stored": figures.largest_stored or None,
        **redaction.beside(figures.largest_key, "largest_tenant"),
        "p50_ms": _milliseconds(figures.times.quantile(0.5)),
        "p99_ms": _milliseconds(figures.times.quantile(0.99)),
        "runs": round(figures.read_in_runs / READS_OF_RUN / seconds, 3),
    }


def slots(time_series: TimeSeries, window: int, count: int, now: float, redaction: Redaction) -> dict[str, Any]:
    """The busiest hash slots and hash tags of Redis Cluster, and a heat map of all slots."""
    interval = time_series.window(window, now)
    total = sum(interval.slots.values()) or 1
    heat = [0] * CELLS
    for slot, weight in interval.slots.items():
        heat[slot * CELLS // SLOTS] += weight
    keys: dict[int, list[bytes]] = {}
    for key, _ in interval.keys.ranked():
        keys.setdefault(slot_of(key), []).append(key)
    tagged = interval.tags.ranked()[:count]
    return {
        "window": window,
        "age": round(max(0.0, now - time_series.newest), 3),
        "heat": [round(weight / total, 6) for weight in heat],
        "slots": [
            {**_part(weight, total, interval.seconds), "slot": slot, **_named(keys.get(slot, []), redaction)}
            for slot, weight in Counter(interval.slots).most_common(count)
        ],
        "tags": [{**_part(each.weight, total, interval.seconds), "tag": redaction.of(tag)} for tag, each in tagged],
        "crossslot": round(interval.crossslot / interval.seconds, 2),
    }


def _named(keys: Sequence[bytes], redaction: Redaction) -> dict[str, Any]:
    shown = keys[:_KEYS_OF_SLOT]
    beside = {} if redaction.own is None else {"tenants": [redaction.tenant_of(key) for key in shown]}
    return {"keys": [redaction.of(key) for key in shown], **beside}


def unusual_tags(time_series: TimeSeries, window: int, now: float) -> list[dict[str, Any]]:
    """The shapes of keys, of the busiest ones, whose hash tags put too many keys into one slot, and why."""
    spread = TagSpread(_LEAST_TAGGED)
    for key, _ in time_series.window(window, now).keys.ranked():
        spread.add(key)
    for interval in time_series.parts(window, now):
        spread.follow(key for key, _ in interval.keys.ranked()[:_FOLLOWED])
    return [asdict(each) for each in spread.unusual()]


def _part(weight: int, total: int, seconds: float) -> dict[str, float]:
    return {"share": round(weight / total, 6), "rate": round(weight / seconds, 1)}


def clients(time_series: TimeSeries, window: int, count: int, now: float) -> dict[str, Any]:
    """The busiest clients; a client is an app, user, name, library and host, on however many connections.

    ``connects`` are connections per second that have ended, ``redis_time`` the seconds of each second that its commands
    took at Redis, both of all clients with this ``id``.
    """
    interval = time_series.window(window, now)
    its = figures_of([interval], interval.seconds)
    ranked = interval.clients.ranked()
    ranked += [(client, Volume()) for client in interval.ended.found if client not in interval.clients.found]
    total = interval.clients.other + sum(each.weight for _, each in ranked) or 1
    rest = ranked[count:]
    return {
        "window": window,
        "age": round(max(0.0, now - time_series.newest), 3),
        "clients": [
            {
                **named(client),
                **_beside(its.get(name_of(client))),
                "rate": round(volume.weight / interval.seconds, 1),
                "share": round(volume.weight / total, 6),
                "bytes_in": round(volume.bytes_in / interval.seconds),
                "bytes_out": round(volume.bytes_out / interval.seconds),
                "refused": round(volume.refused / interval.seconds, 2),
            }
            for client, volume in ranked[:count]
        ],
        "other": {
            "clients": interval.clients.other_names + len(rest),
            "rate": round((interval.clients.other + sum(volume.weight for _, volume in rest)) / interval.seconds, 1),
        },
    }


def _beside(its: ClientFigures | None) -> dict[str, float]:
    # Of all that are alike in user, name and host.
    if its is None:
        return {"connects": 0.0, "redis_time": 0.0}
    return {"connects": round(its.ended.connections / its.seconds, 2), "redis_time": round(its.busy, 4)}


def slow(time_series: TimeSeries, count: int, redaction: Redaction) -> dict[str, Any]:
    """The slowest of the commands traced in the last hour, with their time at Redis and in the proxy."""
    found = sorted(time_series.slow(), key=lambda each: -each.took)[:count]
    return {"commands": [_slow(each, redaction) for each in found]}


def _slow(command: SlowCommand, redaction: Redaction) -> dict[str, Any]:
    return {
        "time": moment(command.at),
        "command": command.command,
        "key": redaction.of(command.key) if command.key else None,
        **redaction.beside(command.key),
        "at_redis_ms": _milliseconds(command.at_redis),
        "in_proxy_ms": _milliseconds(command.in_proxy),
        "bytes_in": command.bytes_in,
        "bytes_out": command.bytes_out,
        **named(command.client),
    }


def traffic(time_series: TimeSeries) -> dict[str, Any]:
    """The last minute, second by second, and the last ten minutes in sums of ten seconds."""
    return {"seconds": seconds(time_series), "tens": [_stretch(interval) for interval in time_series.tens()]}


def seconds(time_series: TimeSeries) -> list[dict[str, Any]]:
    """The last minute, second by second."""
    return [_stretch(interval) for interval in time_series.seconds()]


def _stretch(interval: IntervalStats) -> dict[str, Any]:
    return {
        "at": moment(interval.began),
        "commands": interval.commands,
        "keys": sum(each.total for each in interval.counter_snapshots),
        "p50_ms": _milliseconds(interval.redis.quantile(0.5)),
        "p99_ms": _milliseconds(interval.redis.quantile(0.99)),
        "proxy_p50_ms": _milliseconds(interval.proxy.quantile(0.5)),
        "proxy_p99_ms": _milliseconds(interval.proxy.quantile(0.99)),
        "bytes_in": interval.volume.bytes_in,
        "bytes_out": interval.volume.bytes_out,
        "refused": interval.volume.refused,
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
