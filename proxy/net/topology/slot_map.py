"""What the nodes of a cluster tell about it, and what follows from that: its nodes, their roles, and who owns a slot.

A ``View`` is what one node tells, read from its CLUSTER NODES and CLUSTER SLOTS; ``agreed`` makes a ``SlotMap`` of the
views of many. Each node tells what it believes, and may be wrong: cut off from the others, deposed, or forgotten.

    member    a node that more than half of the views list. One that was forgotten still lists everybody, in vain
    owner     of a slot: the claim with the highest config epoch, unless that node itself denies it
    failed    more than half of the other views say ``fail``
    quorum    the primaries that own slots: more than half of them must have told their view, or nothing follows

CLUSTER NODES has ids, epochs and open slots, and CLUSTER SLOTS the addresses as clients are meant to use them
(``cluster-preferred-endpoint-type``). Both exist in every version; the documentation of CLUSTER SLOTS says what its
hosts mean: null or empty is the host that was asked, ``?`` is a node without a name.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from proxy.commands.slots import SLOTS
from proxy.net.config.endpoint import Endpoint
from proxy.wire.numbers import read_digits

_UNNAMED = "?"
_OWNED = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_OPEN = re.compile(r"\[([0-9]{1,5})-([<>])-([0-9a-f]{1,64})\]")
_OWN_LINE = re.compile(rb"^\S+ \S+ (?:\S*,)?myself[, ].*$", re.MULTILINE)
_FIELDS = 8
"""Words of a line of CLUSTER NODES before its slots."""


class ViewError(ValueError):
    """A reply that does not describe a cluster; the text says what is wrong with it."""


class SlotRange(NamedTuple):
    """Slots from ``first`` to ``last``, both included."""

    first: int
    last: int


class OpenSlot(NamedTuple):
    """A slot on its way from one node to another: some of its keys are here, some there."""

    slot: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node as a view, or the agreed map, has it. Without an ``endpoint`` nobody can reach it."""

    id: str
    endpoint: Endpoint | None
    is_primary: bool = True
    primary_id: str = ""
    epoch: int = 0
    failed: bool = False
    slots: tuple[SlotRange, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What one node, ``by``, tells. ``opened`` are the slots that it gives away or takes itself."""

    by: str
    nodes: Mapping[str, ClusterNode]
    opened: frozenset[OpenSlot] = frozenset()


@dataclass(frozen=True, slots=True)
class SlotMap:
    """The agreed state of a cluster: its nodes by id, and the owner of each slot (None: nobody)."""

    nodes: Mapping[str, ClusterNode] = field(default_factory=dict)
    opened: frozenset[OpenSlot] = frozenset()

    def primaries(self) -> list[ClusterNode]:
        """The nodes that commands go to, in the order of their first slots."""
        serving = [node for node in self.nodes.values() if node.is_primary and not node.failed]
        return sorted(serving, key=lambda node: (node.slots or ((SLOTS, SLOTS),), node.id))

    def unowned(self) -> int:
        """How many slots have no owner that is alive and has an address."""
        owners = [node for node in self.primaries() if node.endpoint is not None]
        return SLOTS - sum(last + 1 - first for node in owners for first, last in node.slots)

    def lost(self) -> list[SlotRange]:
        """The slots of primaries that have failed or have no address: nobody can be asked for their keys."""
        lost = (node for node in self.nodes.values() if node.is_primary and (node.failed or node.endpoint is None))
        return [each for node in lost for each in node.slots]

    def without(self, hidden: Container[str]) -> "SlotMap":
        """The same, but that these nodes have no address."""
        nodes = self.nodes.items()
        shown = {name: replace(node, endpoint=None) if name in hidden else node for name, node in nodes}
        return SlotMap(shown, self.opened)


class NoQuorumError(Exception):
    """The views do not decide what the cluster is; the text says why."""


# Reading what a node tells


def read_view(nodes: Any, slots: Any, asked: str) -> View:
    """Read the replies of CLUSTER NODES and CLUSTER SLOTS, as decoded in RESP2 or RESP3, of the node at host ``asked``.

    Raises ViewError.
    """
    if str(nodes).startswith("NOAUTH"):
        raise ViewError("it asks for a password: give --upstream a user and a password for all nodes")
    if not isinstance(nodes, bytes):
        raise ViewError(f"CLUSTER NODES: {nodes}")
    lines = [line.split(" ") for line in nodes.decode("utf-8", "replace").splitlines()]
    rows = [row for words in lines if (row := _read_row(words)) is not None]
    own = next((row for row in rows if row.is_asked), None)
    if own is None:
        raise ViewError("CLUSTER NODES: no line is about the node itself")
    shown = _read_endpoints(slots, asked)
    found = {row.id: _node_of(row, shown, asked) for row in rows}
    return View(own.id, found, frozenset(own.opened))


class OwnSlots(NamedTuple):
    """The slots of the node that was asked, and whether some of them are on their way to other nodes: those that are
    ``opened``."""

    slots: tuple[SlotRange, ...]
    gives: bool
    opened: frozenset[int] = frozenset()

    def lack(self, before: "OwnSlots") -> bool:
        """Whether it has given slots away since."""
        if self.slots == before.slots:
            return False
        mine = {slot for first, last in self.slots for slot in range(first, last + 1)}
        return any(slot not in mine for first, last in before.slots for slot in range(first, last + 1))


def read_own_slots(nodes: Any) -> OwnSlots | None:
    """The same of a node's reply to CLUSTER NODES; None if it does not tell. Raises ViewError."""
    found = _OWN_LINE.search(nodes) if isinstance(nodes, bytes) else None
    row = None if found is None else _read_row(found[0].decode("utf-8", "replace").split(" "))
    if row is None:
        return None
    opened = frozenset(each.slot for each in row.opened if each.source == row.id)
    return OwnSlots(row.slots, bool(opened), opened)


def read_own_id(nodes: Any) -> bytes:
    """The id of the node that has replied to CLUSTER NODES; empty if it does not tell."""
    found = _OWN_LINE.search(nodes) if isinstance(nodes, bytes) else None
    return b"" if found is None else found[0].partition(b" ")[0]


class _Row(NamedTuple):
    """A line of CLUSTER NODES."""

    id: str
    ip: str
    port: int
    hostname: str
    flags: frozenset[str]
    primary_id: str
    epoch: int
    slots: tuple[SlotRange, ...]
    opened: tuple[OpenSlot, ...]

    @property
    def is_asked(self) -> bool:
        return "myself" in self.flags


def _read_row(words: Sequence[str]) -> _Row | None:
    # None for a node that is not one yet; and without slots, for one that nobody knows the address of.
    if len(words) < _FIELDS:
        raise ViewError(f"CLUSTER NODES: a line of {len(words)} words")
    flags = frozenset(words[2].split(","))
    if "handshake" in flags or ("noaddr" in flags and len(words) == _FIELDS):
        return None
    address, _, names = words[1].partition(",")
    ip, colon, digits = address.partition("@")[0].rpartition(":")
    port, epoch = read_digits(digits), read_digits(words[6])
    if not colon or port is None or epoch is None:
        raise ViewError(f"CLUSTER NODES: {' '.join(words[:_FIELDS])!r}")
    ranges, opened = [], []
    for word in words[_FIELDS:]:
        if owned := _OWNED.fullmatch(word):
            ranges.append(_range(int(owned[1]), int(owned[2] or owned[1])))
        elif moving := _OPEN.fullmatch(word):
            source, target = (words[0], moving[3]) if moving[2] == ">" else (moving[3], words[0])
            opened.append(OpenSlot(int(moving[1]), source, target))
    primary = words[3] if words[3] != "-" else ""
    hostname = names.partition(",")[0] if "=" not in names.partition(",")[0] else ""
    return _Row(words[0], ip, port, hostname, flags, primary, epoch, tuple(ranges), tuple(opened))


def _range(first: int, last: int) -> SlotRange:
    if not 0 <= first <= last < SLOTS:
        raise ViewError(f"CLUSTER NODES: slots {first}-{last}")
    return SlotRange(first, last)


class _Shown(NamedTuple):
    """Where CLUSTER SLOTS shows nodes, by id; ``asked`` where it leaves the host to whoever asks, ``named`` where it
    shows names."""

    endpoints: Mapping[str, Endpoint | None]
    asked: bool
    named: bool


def _read_endpoints(slots: Any, asked: str) -> _Shown:
    if not isinstance(slots, list):
        raise ViewError(f"CLUSTER SLOTS: {slots}")
    endpoints: dict[str, Endpoint | None] = {}
    as_asked = named = False
    for entry in slots:
        for shown in entry[2:] if isinstance(entry, list) else ():
            if not isinstance(shown, list) or len(shown) < 3 or not isinstance(shown[1], int):
                raise ViewError(f"CLUSTER SLOTS: {shown!r}")
            host = "" if shown[0] is None else shown[0].decode("utf-8", "replace")
            as_asked = as_asked or not host
            # With a name preferred, the ip stands in the metadata.
            named = named or (bool(host) and len(shown) > 3 and b"ip" in shown[3])
            endpoints[shown[2].decode()] = None if host == _UNNAMED else Endpoint(host or asked, shown[1])
    return _Shown(endpoints, as_asked, named)


def _node_of(row: _Row, shown: _Shown, asked: str) -> ClusterNode:
    if row.id in shown.endpoints:
        endpoint = shown.endpoints[row.id]
    elif shown.named:
        endpoint = Endpoint(row.hostname, row.port) if row.hostname else None
    else:
        endpoint = Endpoint(asked if shown.asked or not row.ip else row.ip, row.port)
    if endpoint is not None and ("noaddr" in row.flags or not 0 < endpoint.port < 65536):
        endpoint = None
    return ClusterNode(
        row.id, endpoint, "master" in row.flags, row.primary_id, row.epoch, "fail" in row.flags, row.slots
    )


# What many tell together


def agreed(views: Iterable[View]) -> SlotMap:
    """Make the map that these views agree on, at most one of each node. Raises NoQuorumError."""
    told = {view.by: view for view in sorted(views, key=lambda view: view.by)}
    if not told:
        raise NoQuorumError("no node of the cluster answers")
    told = _of_members(told)
    if not told:
        raise NoQuorumError("the nodes that answer do not know one another: they are of different clusters")
    listed = Counter(name for view in told.values() for name in view.nodes)
    members = sorted(name for name, times in listed.items() if 2 * times > len(told))
    ranges = _owned(told, members)
    answered = sum(name in told for name in ranges)
    if 2 * answered <= len(ranges):
        raise NoQuorumError(f"{answered} of {len(ranges)} primaries of the cluster answer, which is no majority")
    nodes = {name: _merged(name, told, ranges.get(name, ())) for name in members}
    opened = frozenset(slot for view in told.values() for slot in view.opened)
    return SlotMap(nodes, frozenset(slot for slot in opened if {slot.source, slot.target} <= set(members)))


def _of_members(told: dict[str, View]) -> dict[str, View]:
    # Whoever is not listed by more than half of the views has no say, and then perhaps others.
    while True:
        listed = Counter(name for view in told.values() for name in view.nodes)
        kept = {by: view for by, view in told.items() if 2 * listed[by] > len(told)}
        if len(kept) == len(told):
            return kept
        told = kept


def _owned(told: Mapping[str, View], members: Sequence[str]) -> dict[str, tuple[SlotRange, ...]]:
    # Between two boundaries of any range, all slots have the same claims.
    claims = {by: _Claims(view, members) for by, view in told.items()}
    bounds = sorted({0, SLOTS, *(bound for each in claims.values() for bound in each.bounds)})
    owned: dict[str, list[SlotRange]] = {}
    for first, behind in pairwise(bounds):
        owner = _owner(first, claims)
        if owner is None:
            continue
        theirs = owned.setdefault(owner, [])
        if theirs and theirs[-1].last + 1 == first:
            theirs[-1] = SlotRange(theirs[-1].first, behind - 1)
        else:
            theirs.append(SlotRange(first, behind - 1))
    return {name: tuple(ranges) for name, ranges in owned.items()}


class _Claims:
    """Whom one view takes for the owner of a slot, and since which epoch."""

    def __init__(self, view: View, members: Sequence[str]) -> None:
        nodes = [view.nodes[name] for name in members if name in view.nodes]
        found = [(slots, node) for node in nodes for slots in node.slots]
        found.sort(key=lambda claim: claim[0])
        self._firsts = [slots.first for slots, _ in found]
        self._found = found
        self.bounds = {bound for slots, _ in found for bound in (slots.first, slots.last + 1)}
        own = view.nodes.get(view.by)
        self.epoch = 0 if own is None else own.epoch

    def of(self, slot: int) -> ClusterNode | None:
        at = bisect_right(self._firsts, slot) - 1
        return self._found[at][1] if at >= 0 and slot <= self._found[at][0].last else None


def _owner(slot: int, claims: Mapping[str, _Claims]) -> str | None:
    votes: Counter[tuple[int, str]] = Counter()
    for each in claims.values():
        node = each.of(slot)
        if node is not None and not _denied(slot, node, claims):
            votes[node.epoch, node.id] += 1
    if not votes:
        return None
    return max(votes, key=lambda claim: (claim[0], votes[claim], claim[1]))[1]


def _denied(slot: int, node: ClusterNode, claims: Mapping[str, _Claims]) -> bool:
    # A node serves what it believes to own itself; what others know of it may be older than that.
    own = claims.get(node.id)
    if own is None or own.epoch < node.epoch:
        return False
    believed = own.of(slot)
    return believed is None or believed.id != node.id


def _merged(name: str, told: Mapping[str, View], slots: tuple[SlotRange, ...]) -> ClusterNode:
    seen = [view.nodes[name] for view in told.values() if name in view.nodes]
    others = [view.nodes[name] for by, view in told.items() if name in view.nodes and by != name]
    own = told[name].nodes[name] if name in told else None
    # The host that a node was asked at leads to it.
    best = own if own is not None and own.endpoint is not None else _most(seen)
    # Who owns slots has been promoted, even where others have not heard of it; who owns none may have been deposed.
    most = _most(seen)
    is_primary = bool(slots) or (most.is_primary and (own is None or own.is_primary))
    primary_id = "" if is_primary else (own or most).primary_id or most.primary_id
    failed = bool(others) and 2 * sum(node.failed for node in others) > len(others)
    return ClusterNode(
        name,
        best.endpoint,
        is_primary,
        primary_id,
        max(node.epoch for node in seen),
        failed,
        slots,
    )


def _most(seen: Sequence[ClusterNode]) -> ClusterNode:
    # What most say of a node; the newest of them, where they are as many.
    said = Counter((node.endpoint, node.is_primary, node.primary_id) for node in seen)
    return max(seen, key=lambda node: (said[node.endpoint, node.is_primary, node.primary_id], node.epoch, str(node)))
