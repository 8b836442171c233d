"""What Sentinels tell about a primary, and what follows from that.

A ``SentinelView`` is what one Sentinel tells. It may be wrong: cut off from the others, or not of this installation. So
only what more than half of all Sentinels tell counts. How many there are, the Sentinels tell: those of the URL are the
least. A Sentinel that the URL does not name counts if more than half of the others list it: of those that answer, until
a majority has agreed once, and then of the whole group.

Sentinels know each other by ids, and those count: one Sentinel that is reached at two addresses has one voice.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import hiredis

from proxy.net.config.endpoint import Endpoint
from proxy.wire.numbers import read_digits


class SentinelError(ValueError):
    """A reply that is not one of a Sentinel; the text says what is wrong with it."""


class NoMajorityError(Exception):
    """No majority of the Sentinels names the same primary; the text says what they do instead."""


@dataclass(frozen=True, slots=True)
class SentinelView:
    """What the Sentinel with the id ``by`` tells: the primary (None: it knows none of that name), the other Sentinels,
    by id, and the ``replicas``: whether each one replicates, as far as this Sentinel knows."""

    by: str
    primary: Endpoint | None
    others: Mapping[str, Endpoint] = field(default_factory=dict)
    replicas: Mapping[Endpoint, bool] = field(default_factory=dict)


def read_sentinel(by: str, my_id: Any, primary: Any, others: Any, replicas: Any = None) -> SentinelView:
    """Read the replies to SENTINEL MYID (since 6.2; without it, ``by`` is its id), GET-MASTER-ADDR-BY-NAME, SENTINELS
    and REPLICAS. Raises SentinelError."""
    if isinstance(primary, hiredis.ReplyError):
        raise SentinelError(f"it answers {primary}")
    by = my_id.decode("utf-8", "replace") if isinstance(my_id, bytes) else by
    if primary is None:
        return SentinelView(by, None)
    found: dict[str, Endpoint] = {}
    for at, fields in _servers(others):
        name = fields.get(b"runid")
        found[name.decode("utf-8", "replace") if isinstance(name, bytes) and name else str(at)] = at
    endpoint = _endpoint(*primary) if isinstance(primary, list) and len(primary) == 2 else None
    if endpoint is None:
        raise SentinelError(f"it names no address, but {primary!r}")
    return SentinelView(by, endpoint, found, {at: _replicates(fields) for at, fields in _servers(replicas)})


def _servers(listing: Any) -> Iterator[tuple[Endpoint, Mapping[Any, Any]]]:
    for fields in listing if isinstance(listing, list) else []:
        known = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=False))
        at = _endpoint(known.get(b"ip"), known.get(b"port"))
        if at is not None:
            yield at, known


def _replicates(fields: Mapping[Any, Any]) -> bool:
    # `flags` also says where it is down; what it says of itself (INFO) is `role-reported`.
    told = [fields.get(name) for name in (b"flags", b"role-reported", b"master-link-status")]
    return told == [b"slave", b"slave", b"ok"]


def _endpoint(host: Any, port: Any) -> Endpoint | None:
    number = read_digits(port.decode("ascii", "replace")) if isinstance(port, bytes) else None
    if not isinstance(host, bytes) or not host or number is None or not 0 < number < 65536:
        return None
    return Endpoint(host.decode("utf-8", "replace"), number)


def listed(views: Collection[SentinelView]) -> dict[str, Endpoint]:
    """The Sentinels that more than half of the others list, by id."""
    told = {view.by: view for view in views}
    votes = Counter((name, endpoint) for view in told.values() for name, endpoint in view.others.items())
    return {name: endpoint for (name, endpoint), n in votes.items() if 2 * n > len(told) - (name in told)}


def replicas(views: Collection[SentinelView]) -> dict[Endpoint, bool]:
    """The servers that more than half of these Sentinels list as replicas: whether all know that it replicates."""
    told = {view.by: view for view in views}.values()
    votes = Counter(at for view in told for at in view.replicas)
    return {at: all(view.replicas.get(at) for view in told) for at, n in votes.items() if 2 * n > len(told)}


def counting(views: Mapping[Endpoint, SentinelView], named: Collection[Endpoint]) -> dict[Endpoint, SentinelView]:
    """The views of the ``named`` Sentinels, and of those that the others list. One alone can be judged by nobody."""
    known = listed(views.values())
    alone = len({view.by for view in views.values()}) == 1
    return {at: view for at, view in views.items() if at in named or view.by in known or alone}


def size(views: Collection[SentinelView], least: int) -> int:
    """How many Sentinels there are: ``least`` at least; as many as most say, and the larger number of two."""
    said = Counter(1 + len(view.others) for view in views if view.primary is not None)
    return max(least, max(said, key=lambda number: (said[number], number), default=0))


def agreed(views: Collection[SentinelView], name: str, least: int) -> Endpoint:
    """The primary that a majority of at least so many Sentinels names. Raises NoMajorityError."""
    told = {view.by: view for view in views}
    there = max(size(told.values(), least), len(told))
    votes = Counter(view.primary for view in told.values() if view.primary is not None)
    for primary, number in votes.items():
        if 2 * number > there:
            return primary
    if 2 * len(told) <= there:
        raise NoMajorityError(f"{len(told)} of {there} Sentinels answer" if told else "no Sentinel answers")
    if not votes:
        raise NoMajorityError(f"the Sentinels know no primary named {name!r}")
    shown = ", ".join(f"{primary} ({number} of {there})" for primary, number in sorted(votes.items()))
    raise NoMajorityError(f"no majority of the Sentinels names one primary: {shown}")


class SentinelGroup:
    """The Sentinels of one primary, as far as a majority of them has agreed; the ``named`` ones at least.

    A Sentinel can forget the others (SENTINEL RESET, a lost configuration file), and say that it is the only one. So
    the ``members`` of the last agreement, by id, count until more than half of them say that there are fewer. ``reach``
    is where a Sentinel is asked that others list.
    """

    def __init__(self, named: Collection[Endpoint], reach: Callable[[Endpoint], Endpoint]) -> None:
        self.members: dict[str, Endpoint] = {}
        self._named = named
        self._reach = reach
        self._size = len(named)

    def counting(self, views: Mapping[Endpoint, SentinelView]) -> dict[Endpoint, SentinelView]:
        """The views that count. While members of the group answer, a new Sentinel counts that more than half of the
        group lists: one that is cut off from the others brings in nobody."""
        if not any(view.by in self.members for view in views.values()):
            return counting(views, self._named)
        known = {at: view for at, view in views.items() if at in self._named or view.by in self.members}
        told = {view.by: view for view in known.values()}
        votes = Counter(name for view in told.values() for name in view.others)
        listed_by_most = {name for name, number in votes.items() if 2 * number > self._size}
        return {at: view for at, view in views.items() if at in known or view.by in listed_by_most}

    def agree(self, views: Mapping[Endpoint, SentinelView], name: str) -> Endpoint:
        """The primary that a majority names. Raises NoMajorityError."""
        told = {view.by: view for view in views.values()}
        fewer = self._says_fewer(told)
        primary = agreed(told.values(), name, len(self._named) if fewer else self._size)
        there = {by: self._reach(at) for by, at in listed(told.values()).items()} | {
            view.by: at for at, view in views.items()
        }
        taken = {*there.values()}
        kept = (
            {} if fewer or len(there) >= self._size else {by: at for by, at in self.members.items() if at not in taken}
        )
        self.members = kept | there
        self._size = max(size(told.values(), len(self._named) if fewer else self._size), len(told))
        return primary

    def _says_fewer(self, told: Mapping[str, SentinelView]) -> bool:
        said = [view for by, view in told.items() if by in self.members and view.primary is not None]
        return 2 * sum(1 + len(view.others) < self._size for view in said) > self._size


def dissent(views: Mapping[Endpoint, SentinelView], primary: Endpoint) -> set[str]:
    """The Sentinels that name no primary or another one, a sentence each."""
    return {
        f"Sentinel {by} names {view.primary or 'no primary'}, and most others {primary}"
        for by, view in views.items()
        if view.primary != primary
    }
