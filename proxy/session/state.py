"""The states of a client's connection, and the transitions between them.

    Pooled               its commands go to shared upstreams
    PooledTransaction    a transaction that has arrived whole is on its way to a shared upstream
    NodelessMulti        with a cluster upstream: MULTI has been answered, and no key has named a node yet
    Waiting              with a cluster upstream: WAIT is pending on a connection to each primary
    Pinned               it has an upstream of its own: for how long (``Keeping``), and what is open there (``Unit``)
    Departed             it has left; replies that are still pending may have to be read

What only a private upstream can hold, only ``Pinned`` has, so a client without one can hold none of it. All transitions
are here: the functions at the end lead from state to state, the table ``KEEPING`` says for how long a private upstream
is kept, and the functions behind ``Unit`` change what is open there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, TypeAlias

from proxy.rules.verdict import ReplyEdit
from proxy.session import reply_mode
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.subscription import Subscriptions

MOST_WATCHED = 1024
"""Keys of which it is known that the client watches them; with so many, all are taken for watched."""


class Keeping(Enum):
    """For how long a private upstream is kept, once nothing is open on it."""

    SERVING = "until no reply is pending"
    LINGERING = "a moment longer, since a login is rarely followed by nothing"
    RETURNING = "until no reply is pending, which the client's next command waits for"
    FOR_GOOD = "as long as the client stays: what it holds, only Redis knows"


class Awaited(Enum):
    """The reason why the client's next command waits. Nothing is forwarded meanwhile."""

    REPLIES = "all replies that are pending"
    REPLY_ELSEWHERE = "the reply to a command that runs on another upstream, alone"
    UPSTREAM = "an upstream from the pools"
    USER = "what the client's user may run"
    LOGIN = "whether Redis accepts a login"
    DATABASE = "whether all nodes of a cluster have a database"
    PROBE = "another client's answer whether the engine knows a command"
    SCRIPTS = "what other workers have seen of a script"
    PROCEDURE = "what Redis tells a rule"
    MEMORY = "a reply that the local cache fetches"
    REPLICA = "what its replica has"
    SUBSCRIPTION = "confirmations of nodes of a cluster"
    GROUP = "figures of the process group"


LACKING = frozenset((Awaited.UPSTREAM, Awaited.USER, Awaited.SCRIPTS, Awaited.GROUP))
"""What Keyrail lacks. With the other ones it waits for Redis, as a client of Redis itself would."""


class Event(Enum):
    """An event that changes for how long a private upstream is kept."""

    NEEDED = "a command has to run there"
    LOGGED_IN = "a command that is rarely the last one has been sent"
    HURRIED = "the moment is over, or others need the upstream"
    ENDED = "the last state there has ended, and replies are pending"
    UNKNOWN = "from now on it may hold anything"


KEEPING: Mapping[tuple[Keeping, Event], Keeping] = {
    (Keeping.SERVING, Event.NEEDED): Keeping.SERVING,
    (Keeping.SERVING, Event.LOGGED_IN): Keeping.LINGERING,
    (Keeping.SERVING, Event.HURRIED): Keeping.SERVING,
    (Keeping.SERVING, Event.ENDED): Keeping.RETURNING,
    (Keeping.SERVING, Event.UNKNOWN): Keeping.FOR_GOOD,
    (Keeping.LINGERING, Event.NEEDED): Keeping.SERVING,
    (Keeping.LINGERING, Event.HURRIED): Keeping.SERVING,
    (Keeping.LINGERING, Event.UNKNOWN): Keeping.FOR_GOOD,
    (Keeping.RETURNING, Event.NEEDED): Keeping.SERVING,
    (Keeping.RETURNING, Event.HURRIED): Keeping.RETURNING,
    (Keeping.RETURNING, Event.UNKNOWN): Keeping.FOR_GOOD,
    (Keeping.FOR_GOOD, Event.NEEDED): Keeping.FOR_GOOD,
    (Keeping.FOR_GOOD, Event.LOGGED_IN): Keeping.FOR_GOOD,
    (Keeping.FOR_GOOD, Event.HURRIED): Keeping.FOR_GOOD,
    (Keeping.FOR_GOOD, Event.UNKNOWN): Keeping.FOR_GOOD,
}
"""Other transitions cannot happen: logins and endings come behind a command that needed the upstream, and what is kept
for good does not end."""


@dataclass(frozen=True, slots=True)
class Watching:
    """WATCH has been sent, and nothing has ended it."""

    keys: frozenset[bytes]

    def watches(self, key: bytes) -> bool:
        """Whether a change of the key may make EXEC fail."""
        return len(self.keys) >= MOST_WATCHED or key in self.keys


@dataclass(slots=True)
class DatabaseSwitch:
    """Whether a queued command switches the client (AUTH, SELECT, HELLO). It is an object of its own, for those whom a
    transaction's ``actions`` refer to: if they referred to the transaction, that would be a cycle."""

    queued: bool = False


@dataclass(slots=True)
class Transaction:
    """What has been queued: ``first`` is the client's command count at MULTI; the actions on single members of EXEC's
    array, by position, as the upstream takes them. Where one ``switches`` the client,
    what stands behind EXEC waits for it. ``database`` is the one that what is queued next will run in. ``watching`` is
    what MULTI came behind; ``watches_in_vain`` says that there was a WATCH between MULTI and EXEC, ``outdated`` that
    another policy has come into force since, under which the client stands behind EXEC."""

    first: int
    database: int
    watching: Watching | None = None
    actions: dict[int, tuple[int, Any]] = field(default_factory=dict)
    switches: DatabaseSwitch = field(default_factory=DatabaseSwitch)
    watches_in_vain: bool = False
    outdated: bool = False
    slot: int | None = None
    """With a cluster upstream: that of its keys."""


Unit: TypeAlias = Watching | Transaction | None
"""The WATCH or MULTI that is open on a connection: other clients' commands would become part of it, or make it fail."""


def watch(unit: Unit, keys: Sequence[bytes]) -> Watching:
    """WATCH outside of a transaction adds keys to those that are watched."""
    assert not isinstance(unit, Transaction), "Redis refuses WATCH inside MULTI"
    known = unit.keys if unit is not None else frozenset()
    return Watching(known if len(known) >= MOST_WATCHED else known.union(keys))


def refused(unit: Transaction) -> Watching | None:
    """Redis has refused MULTI: a WATCH before it is still open."""
    return unit.watching


class _Unpinned:
    """No connection is this client's own."""

    __slots__ = ()

    upstream: ClassVar[None] = None
    watching: ClassVar[None] = None
    subscriptions: ClassVar[None] = None
    reply_mode: ClassVar[int] = reply_mode.ON
    blocked: ClassVar[int] = 0


class Pooled(_Unpinned):
    """The same, and none holds anything of it."""

    __slots__ = ()

    transaction: ClassVar[None] = None


POOLED = Pooled()
"""All pooled clients share it."""


@dataclass(slots=True)
class PooledTransaction(_Unpinned):
    """A transaction that has arrived whole: it travels on a shared upstream as one unbroken slice."""

    transaction: Transaction


@dataclass(slots=True)
class NodelessMulti(_Unpinned):
    """With a cluster upstream: a transaction of which nothing has been sent. ``kept`` are queued commands without keys,
    and what becomes of their replies, and ``writes`` says that one of them may write; ``spoiled`` that a command was
    refused, so that EXEC has to fail."""

    transaction: Transaction
    kept: list[tuple[bytes, ReplyEdit | None]] = field(default_factory=list)
    writes: bool = False
    spoiled: bool = False


@dataclass(slots=True)
class Waiting(_Unpinned):
    """With a cluster upstream: WAIT is pending on these connections, one to each primary."""

    upstreams: list[PrivatePipeline]

    transaction: ClassVar[None] = None
    blocked: ClassVar[int] = 1


@dataclass(slots=True)
class Pinned:
    """An upstream of this client's own. ``blocked`` counts its commands there that may block, ``reply_mode`` is what
    CLIENT REPLY and MONITOR have chosen (``reply_mode.py``), and ``silence`` what CLIENT REPLY alone has while MONITOR
    relays. ``spoiled``: it may hold state that no other client may get, and that this one may lose."""

    upstream: PrivatePipeline
    keeping: Keeping = Keeping.SERVING
    unit: Unit = None
    subscriptions: Subscriptions | None = None
    silence: int = reply_mode.ON
    reply_mode: int = reply_mode.ON
    blocked: int = 0
    spoiled: bool = False

    @property
    def transaction(self) -> Transaction | None:
        """What has been queued since MULTI."""
        unit = self.unit
        return unit if type(unit) is Transaction else None

    @property
    def watching(self) -> Watching | None:
        """What is watched, inside a transaction, too."""
        unit = self.unit
        return unit.watching if type(unit) is Transaction else unit if type(unit) is Watching else None

    def happens(self, event: Event) -> None:
        """Something changes for how long the upstream is kept."""
        self.keeping = KEEPING[self.keeping, event]

    def replies_have_come(self) -> None:
        """No reply is pending: nothing blocks any more, and subscriptions are as Redis has confirmed them."""
        self.blocked = 0
        if self.subscriptions is not None:
            self.subscriptions.asked = 0
            if self.subscriptions.empty():
                self.subscriptions = None
                self.upstream.follow(None)

    def holds(self) -> bool:
        """Whether the upstream holds something of this client that replies alone do not end."""
        if self.keeping is Keeping.FOR_GOOD or self.unit is not None:
            return True
        return self.subscriptions is not None and not self.subscriptions.empty()


@dataclass(slots=True)
class Departed:
    """The client has left. What CLIENT REPLY and subscriptions make of its last connection goes on to be true."""

    subscriptions: Subscriptions | None
    reply_mode: int

    upstream: ClassVar[None] = None
    transaction: ClassVar[None] = None
    watching: ClassVar[None] = None
    blocked: ClassVar[int] = 0


ClientState: TypeAlias = Pooled | PooledTransaction | NodelessMulti | Waiting | Pinned | Departed


def pinned(state: ClientState, upstream: PrivatePipeline) -> Pinned:
    """The client has an upstream for itself from now on."""
    if type(state) is NodelessMulti:
        return Pinned(upstream, unit=state.transaction)
    assert type(state) is Pooled, "neither in the middle of a pooled transaction, nor twice, nor for nobody"
    return Pinned(upstream)


def unpinned(state: ClientState) -> Pooled:
    """The private upstream is this client's no more."""
    assert type(state) is Pinned, "only a private upstream can be given back"
    return POOLED


def nodeless(state: ClientState, transaction: Transaction) -> NodelessMulti:
    """With a cluster upstream: MULTI has been answered, and nothing has been sent."""
    assert type(state) is Pooled, "a transaction belongs to a node as soon as the client has a connection to one"
    return NodelessMulti(transaction)


def waiting(state: ClientState, upstreams: list[PrivatePipeline]) -> Waiting:
    """With a cluster upstream: WAIT has been sent on these connections."""
    assert type(state) is Pooled, "it needs all nodes"
    return Waiting(upstreams)


def begun(state: ClientState, transaction: Transaction) -> ClientState:
    """MULTI has been sent."""
    match state:
        case Pooled():
            return PooledTransaction(transaction)
        case Pinned():
            state.unit = transaction
            return state
        case PooledTransaction() | NodelessMulti() | Waiting() | Departed():
            raise AssertionError("a transaction does not begin inside another, nor for nobody")


def ended(state: ClientState, left: Watching | None = None) -> ClientState:
    """What was open has ended; ``left`` is what is open still."""
    match state:
        case Pinned():
            state.unit = left
            return state
        case PooledTransaction() | NodelessMulti() | Waiting():
            return POOLED
        case Pooled() | Departed():
            return state


def departed(state: ClientState) -> Departed:
    """The client has left."""
    return Departed(state.subscriptions, state.reply_mode)
