"""Clients that hinder others in the last seconds: that loop over KEYS, connect for each command, or take most of
Redis's time. A client is its user, name and host, whatever its library."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from proxy.traffic.alerts import Misuse
from proxy.traffic.client_figures import EndedConnections, TimeAtRedis
from proxy.traffic.client_ids import ClientName, name_of
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.labels import Client

KEYS = "KEYS"
_SHOWN_COMMANDS = 2
_MANY = 10
"""KEYS of which nobody knows how long they take are as bad as a tenth of them that are known to take long."""


@dataclass(slots=True)
class ClientFigures:
    """The figures of one client in `seconds`, and by command; `client` is it with the app and library seen last."""

    client: Client
    seconds: float
    ended: EndedConnections = field(default_factory=EndedConnections)
    times: dict[str, TimeAtRedis] = field(default_factory=dict)

    @property
    def name(self) -> ClientName:
        """Which client it is."""
        return name_of(self.client)

    @property
    def busy(self) -> float:
        """Seconds of each second at Redis."""
        return sum(each.seconds for each in self.times.values()) / self.seconds

    @property
    def keys(self) -> TimeAtRedis:
        """Its KEYS."""
        return self.times.get(KEYS, TimeAtRedis())

    def slowest(self) -> list[tuple[str, TimeAtRedis]]:
        """The commands that take most of the time."""
        ranked = sorted(self.times.items(), key=lambda item: -item[1].seconds)
        return ranked[:_SHOWN_COMMANDS]


def figures_of(intervals: Iterable[IntervalStats], seconds: float) -> Mapping[ClientName, ClientFigures]:
    """The figures of all clients."""
    found: dict[ClientName, ClientFigures] = {}

    def its(client: Client) -> ClientFigures:
        figures = found.setdefault(name_of(client), ClientFigures(client, max(seconds, 1.0)))
        figures.client = client
        return figures

    for interval in intervals:
        for client, ended in interval.ended.found.items():
            its(client).ended.add(ended)
        for (command, *rest), took in interval.times.found.items():
            its(tuple(rest)).times.setdefault(command, TimeAtRedis()).add(took)
    return found


def loops_over_keys(each: ClientFigures, least: Misuse) -> bool:
    """Whether the client runs KEYS all the time."""
    its = each.keys
    often = its.count >= max(2.0, least.keys_rate * each.seconds)
    took = its.seconds or its.most
    if took:
        return often and took >= least.keys_time * each.seconds
    return its.count >= _MANY * least.keys_rate * each.seconds


def reconnects(each: ClientFigures, least: Misuse) -> bool:
    """Whether the client connects for a few commands, all the time."""
    ended = each.ended
    often = ended.connections >= least.ended_rate * each.seconds
    return often and ended.commands <= least.ended_commands * ended.connections


def busiest(figures: Mapping[ClientName, ClientFigures], least: Misuse) -> Iterator[ClientFigures]:
    """The clients that take most of the time."""
    busy = Counter({name: each.busy for name, each in figures.items()})
    total = sum(busy.values())
    for name, time in busy.items():
        if time >= least.busy_time and time >= least.busy_share * total:
            yield figures[name]
