"""The effect that a limit on one key, or on some clients, would have had in the last minute, from figures."""

from collections.abc import Callable
from dataclasses import dataclass

from proxy.traffic.labels import Client
from proxy.traffic.time_series import TimeSeries

_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Effect:
    """Uses of a key, or commands of clients, per second in the last minute, how many of them a limit would have
    refused, and how many only read. All are upper bounds.
    """

    used: float
    refused: float
    reads: float = 0.0


def effect_of(time_series: TimeSeries, key: bytes, app: str, rate: float, now: float) -> Effect:
    """The effect of a limit of `rate` uses per second on an app's clients; an empty `app` stands for all clients."""
    part = _part_of(time_series, key, app, now) if app else 1.0
    used = refused = reads = 0.0
    seconds = [second for second in time_series.seconds() if second.began >= now - _MINUTE]
    for second in seconds:
        counts = second.counts()
        found = next((each for each in counts.key_counts if each.key == key), None)
        its = 0.0 if found is None else part * found.count
        reads += 0.0 if found is None else part * (found.count - found.writes)
        used += its
        refused += max(0.0, its - rate)
    known = max(1, len(seconds))
    return Effect(used / known, refused / known, reads / known)


def effect_on_clients(time_series: TimeSeries, concerns: Callable[[Client], bool], rate: float, now: float) -> Effect:
    """The effect of a limit of `rate` commands per second on some clients, by traces."""
    used = refused = reads = 0.0
    seconds = [second for second in time_series.seconds() if second.began >= now - _MINUTE]
    for second in seconds:
        volumes = [volume for client, volume in second.clients.found.items() if concerns(client)]
        its = sum(volume.weight for volume in volumes)
        used += its
        reads += sum(volume.reads for volume in volumes)
        refused += max(0.0, its - rate)
    known = max(1, len(seconds))
    return Effect(used / known, refused / known, reads / known)


def _part_of(time_series: TimeSeries, key: bytes, app: str, now: float) -> float:
    """The share of a key's uses that an app made; 1 if no trace tells."""
    figures = time_series.window(_MINUTE, now).keys.found.get(key)
    if figures is None:
        return 1.0
    total = sum(figures.clients.values()) + figures.other_clients
    return sum(weight for client, weight in figures.clients.items() if client[0] == app) / total
