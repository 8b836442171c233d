"""One command in the command table: what engines report about it, and what flags and rows decide."""

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cache
from typing import Any

from proxy.commands.over_nodes import OverNodes


class ConnectionState(IntEnum):
    """The state that a command needs of its connection, or changes."""

    POOL = 0
    """None: it can run on any shared upstream connection."""
    MULTI = 1
    EXEC = 2
    DISCARD = 3
    WATCH = 4
    UNWATCH = 5
    SUBSCRIBE = 6
    """SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE."""
    UNSUBSCRIBE = 7
    """UNSUBSCRIBE, PUNSUBSCRIBE, SUNSUBSCRIBE."""
    BLOCKING = 8
    """Private until its reply (``KeyFinder.blocks`` tells whether it can block with its arguments)."""
    WAIT = 9
    """WAIT, WAITAOF: about the connection's own writes."""
    MONITOR = 10
    PIN = 11
    """Private until the client disconnects."""
    REPLY = 12
    """CLIENT REPLY."""
    SELECT = 13
    AUTH = 14
    HELLO = 15
    RESET = 16
    QUIT = 17
    NAME = 18
    """CLIENT SETNAME, GETNAME, SETINFO: about the client, not about a shared upstream connection."""
    IDLE = 19
    """It ends what other clients wait for: needs an upstream connection without pending replies, of any database."""
    REFUSED = 20
    """It turns the connection into a replication link: never forwarded."""
    UNKNOWN = 21
    """Not in the table: private until the engine has described it."""
    KEYRAIL = 22
    """KEYRAIL …: Keyrail answers it."""
    ADMIN = 23
    """About the server. CLIENT PAUSE … WRITE does not pause it, so it must not wait behind other clients' commands,
    which may be paused."""


class Lane(Enum):
    """Whether other clients' commands may wait behind a command on a shared upstream connection."""

    FAST = 0
    SLOW = 1


@dataclass(frozen=True, slots=True)
class KeySpec:
    """Where some of a command's keys are, in the terms of Redis's own key specifications.

    The search begins at argument ``start`` (``begin`` is ``index``), or behind the first ``keyword`` at or after
    argument ``start`` (a negative start counts from the end and searches backwards). From there ``range`` takes every
    ``step``-th argument up to ``last``, relative to the first. A negative ``last`` counts from the end of the
    arguments, or with ``limit`` n from the end of their first n-th part. ``keynum`` reads the number of keys at
    ``count_at`` and takes as many from ``first_key``; both are relative. ``unknown``: only the command's own syntax
    tells.
    """

    flags: frozenset[str]
    begin: str
    start: int = 0
    keyword: str = ""
    find: str = "range"
    last: int = 0
    step: int = 1
    limit: int = 0
    count_at: int = 0
    first_key: int = 0

    @property
    def names_keys(self) -> bool:
        """False for arguments that Redis hashes like keys, but that are channels."""
        return "not_key" not in self.flags

    @property
    def writes(self) -> bool:
        """Whether the command may change or remove the key."""
        return "RO" not in self.flags

    @staticmethod
    def from_record(record: dict[str, Any]) -> "KeySpec":
        """The specification that ``as_record`` wrote."""
        return _key_spec(tuple(record["flags"]), tuple(record["begin"]), tuple(record["find"]))

    def as_record(self) -> dict[str, Any]:
        """The specification as plain data."""
        return {
            "flags": sorted(self.flags),
            "begin": [self.begin, *(getattr(self, field) for field in _BEGIN_FIELDS[self.begin])],
            "find": [self.find, *(getattr(self, field) for field in _FIND_FIELDS[self.find])],
        }


@cache  # hundreds of commands share a few dozen
def _key_spec(flags: tuple[str, ...], begin: tuple[Any, ...], find: tuple[Any, ...]) -> KeySpec:
    values: dict[str, Any] = {"flags": frozenset(flags), "begin": begin[0], "find": find[0]}
    values.update(zip(_BEGIN_FIELDS[begin[0]], begin[1:], strict=True))
    values.update(zip(_FIND_FIELDS[find[0]], find[1:], strict=True))
    return KeySpec(**values)


_BEGIN_FIELDS = {"index": ("start",), "keyword": ("keyword", "start"), "unknown": ()}
_FIND_FIELDS = {
    "range": ("last", "step", "limit"),
    "keynum": ("count_at", "first_key", "step"),
    "unknown": (),
}


_REPLICATED = frozenset({"write", "may_replicate"})


@dataclass(frozen=True, slots=True)
class Spec:
    """One command or subcommand: ``name`` is ``"GET"`` or ``"CLIENT|SETNAME"``; id 0 is the unknown command."""

    id: int
    name: str
    arity: int
    """As Redis counts: the command's name included. A negative arity means: at least that many."""
    container: bool
    """Has subcommands; this spec stands for the bare command."""
    flags: frozenset[str]
    categories: frozenset[str]
    """ACL categories, without ``@``."""
    key_specs: tuple[KeySpec, ...]
    state: ConnectionState
    lane: Lane
    creates: bool
    """May create a key."""
    drops_ttl: bool
    """May remove the TTL of a key."""
    only_reads: bool
    """Changes nothing. False for scripts, unknown commands, and modules' commands without the flag of a read."""
    own_errors: bool
    """It may answer an error of any text after it has run: scripts, functions, modules' commands."""
    process_bound: bool
    """Its sender relies on memory that the server loses when it restarts: loaded scripts and functions, tracking."""
    over_nodes: OverNodes
    """Where it goes on a cluster, and how replies join."""
    since: str
    engines: tuple[str, ...]
    """The engines that have it: ``valkey-9.1``, ``redis-7.0``, …; empty if only the running engine reported it."""
    stands_for: int = 0
    """If the name is an alias (``Table.with_aliases``): the id of its command. No request has the alias's own id."""
    may_replicate: bool = field(init=False, compare=False)
    """Its effects may reach replicas: WAIT is about it. What scripts and modules' commands do is unknown."""
    may_have_keys: bool = field(init=False, compare=False)
    """Some request of the command has keys. Computed once: every rule reads it each time that a policy is compiled."""

    def __post_init__(self) -> None:
        replicates = bool(self.flags & _REPLICATED) or (self.own_errors and not self.only_reads)
        object.__setattr__(self, "may_replicate", replicates)
        object.__setattr__(self, "may_have_keys", any(key_spec.names_keys for key_spec in self.key_specs))

    @property
    def display(self) -> str:
        """The name as people write it: ``CLIENT SETNAME``."""
        return self.name.replace("|", " ")

    @property
    def write(self) -> bool:
        """The engine flags it as a write. It does not flag scripts: only the script knows what it does."""
        return "write" in self.flags

    def takes(self, argc: int) -> bool:
        """Whether Redis accepts `argc` arguments, the command's name included."""
        return argc == self.arity if self.arity >= 0 else argc >= -self.arity

    @property
    def has_one_key(self) -> bool:
        """Whether every request that Redis accepts has exactly one key."""
        return len(self.key_specs) == 1 and self.key_specs[0].find == "range" and self.key_specs[0].last == 0

    @property
    def one_reply(self) -> bool:
        """Whether the reply is exactly one frame and no push, with any arguments."""
        return self.state not in _OTHER_REPLY_COUNTS


_OTHER_REPLY_COUNTS = frozenset(
    {
        ConnectionState.SUBSCRIBE,
        ConnectionState.UNSUBSCRIBE,
        ConnectionState.MONITOR,
        ConnectionState.REPLY,
        ConnectionState.UNKNOWN,
    }
)
