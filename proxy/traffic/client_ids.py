"""The short names of clients, by which operators name them: of their user, their own name and their host.

The library is left out, as a client tells it late, and so is the port: all connections of a client are one.
"""

import hashlib

from proxy.traffic.labels import Client
from proxy.traffic.time_series import TimeSeries

_LONG, _SHORT = 3600, 60
ClientName = tuple[str, str, str]
"""The user, the client's own name and the host."""


def name_of(client: Client) -> ClientName:
    """What an id is of."""
    _, user, name, _, host = client
    return user, name, host


def id_of(name: ClientName) -> str:
    """The id: the same in all Keyrails, and after each restart."""
    return "c" + hashlib.blake2b("\0".join(name).encode("utf-8", "replace"), digest_size=4).hexdigest()


def named(time_series: TimeSeries, asked: str, now: float) -> ClientName | None:
    """The client with this id, if it has been seen in the last hour."""
    for window in (_SHORT, _LONG):
        interval = time_series.window(window, now)
        timed = [tuple(rest) for _, *rest in interval.times.found]
        for client in (*interval.clients.found, *interval.ended.found, *timed):
            if id_of(name_of(client)) == asked:
                return name_of(client)
    return None
