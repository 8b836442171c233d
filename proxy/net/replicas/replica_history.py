"""What a primary's replication offset was, and when: by that, the offset of a replica becomes a number of seconds.

Offsets are bytes. A replica that has applied the offset that its primary had at some time has all that the primary had
then, whatever was written since. So its data is at most as old as the last such time. A primary that hangs tells no
offsets, and so its replicas grow old, although their connection to it is up.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from proxy.wire.numbers import read_digits

_KEPT = 600
"""Looks. A replica that is behind all of them has no known lag."""
_NEAR = 60
"""The newest of them, which are all kept."""
_APART_SECONDS = 0.4
"""How far apart the others are at least: looks that clients wait for follow each other faster."""


class Told(NamedTuple):
    """What INFO replication tells of a server: the replication stream, and the offset that a primary has written or a
    replica has applied. ``linked``: it is a primary, or connected to its own; ``syncing``: it gets a copy of all.
    ``process`` is the run_id of the server; empty if it does not tell. For ``replicates_slots`` see ``engine``."""

    is_replica: bool
    stream: str
    offset: int
    linked: bool = True
    syncing: bool = False
    replicas: tuple[tuple[str, int], ...] = ()
    """Of a primary: the addresses that its replicas announce."""
    process: str = ""
    replicates_slots: bool = False


class Sample(NamedTuple):
    """At a look that was begun at this time, the primary had this offset, or more."""

    look: int
    at: float
    offset: int


class PrimaryHistory:
    """The offsets of one primary in one replication stream."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    @property
    def last(self) -> Sample | None:
        """The newest one."""
        return self._samples[-1] if self._samples else None

    def add(self, look: int, at: float, offset: int) -> None:
        """The primary has told its offset."""
        samples = self._samples
        samples.append(Sample(look, at, offset))
        place = len(samples) - _NEAR
        if place > 0 and samples[place].at - samples[place - 1].at < _APART_SECONDS:
            del samples[place]
        if len(samples) > 2 * _KEPT:
            del samples[:-_KEPT]

    def covered_by(self, applied: int) -> Sample | None:
        """The newest one of which a replica with this offset has everything; None if it is behind all of them."""
        place = bisect_right(self._samples, applied, key=lambda sample: sample.offset)
        return self._samples[place - 1] if place else None


def read_replication(info: bytes) -> Told | None:
    """What INFO replication says; None if it tells no offset."""
    lines = info.decode("utf-8", "replace").splitlines()
    fields = {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}
    is_replica = fields.get("role") == "slave"
    offset = read_digits(fields.get("slave_repl_offset" if is_replica else "master_repl_offset", ""))
    if offset is None or "master_replid" not in fields:
        return None
    return Told(
        is_replica,
        fields["master_replid"],
        offset,
        not is_replica or fields.get("master_link_status") == "up",
        fields.get("master_sync_in_progress") == "1",
        tuple(_announced(fields)),
    )


def _announced(fields: Mapping[str, str]) -> list[tuple[str, int]]:
    # slave0:ip=10.0.0.2,port=6379,state=online,offset=…,lag=…
    found = []
    for name, value in fields.items():
        if name.startswith("slave") and read_digits(name[5:]) is not None:
            parts = dict(part.partition("=")[::2] for part in value.split(","))
            port = read_digits(parts.get("port", ""))
            if parts.get("ip") and port:
                found.append((parts["ip"], port))
    return found
