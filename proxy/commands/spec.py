"""One command as the proxy sees it: what engines say about it, and what flags and rows decide."""

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cache
from typing import Any

from proxy.commands.over_nodes import OverNodes


class ConnectionState(IntEnum):
    """What a command needs of, or does to, the connection that it runs on."""

    POOL = 0
    """Nothing: any shared upstream will do."""
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
    """Private until its reply (``KeyFinder.blocks`` tells whether these arguments can block at all)."""
    WAIT = 9
    """WAIT, WAITAOF: they speak about the connection's own writes."""
    MONITOR = 10
    PIN = 11
    """Private for the rest of the session."""
    REPLY = 12
    """CLIENT REPLY."""
    SELECT = 13
    AUTH = 14
    HELLO = 15
    RESET = 16
    QUIT = 17
    NAME = 18
    """CLIENT SETNAME, GETNAME, SETINFO: about the client, not about a shared upstream."""
    IDLE = 19
    """Ends what other clients wait for: needs an upstream without pending replies, of whatever database."""
    REFUSED = 20
    """Turns the connection into a replication link: never passed on."""
    UNKNOWN = 21
    """Not in the table: private until the engine has said what it is."""
    KEYRAIL = 22
    """KEYRAIL …: answered here."""
    ADMIN = 23
    """About the server, and not paused by CLIENT PAUSE … WRITE: waits behind nobody else's commands, which may be."""


class Lane(Enum):
    """Whether a command may stand in front of other clients' commands on a shared upstream."""

    FAST = 0
    SLOW = 1


@dataclass(frozen=True, slots=True)
class KeySpec:
    """Where some of a command's keys are, in the terms of Redis's own key specifications.

    The search begins at argument ``start`` (``begin`` is ``index``), or behind the first ``keyword`` at or
    after argument ``start`` (a negative start counts from the end and searches backwards). From there
    ``range`` takes every ``step``-th argument to ``last`` (relative to the first; negative: from the end of
    the arguments, or with ``limit`` n, of their first n-th part); ``keynum`` reads how many keys there are at
    ``count_at`` and takes that many from ``first_key``, both relative. ``unknown``: only the command's own
    syntax tells.
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
        """False for arguments that are hashed like keys but are none (channels)."""
        return "not_key" not in self.flags

    @property
    def writes(self) -> bool:
        """Whether the command may change or remove the key, not only read it."""
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


@dataclass(frozen=True, slots=True)
class Spec:
    """One command or subcommand: ``name`` is ``"GET"`` or ``"CLIENT|SETNAME"``, id 0 the unknown command."""

    id: int
    name: str
    arity: int
    """As Redis counts: the command's name included; negative: at least that many."""
    container: bool
    """Has subcommands; this spec then stands for the bare command."""
    flags: frozenset[str]
    categories: frozenset[str]
    """ACL categories, without ``@``."""
    key_specs: tuple[KeySpec, ...]
    state: ConnectionState
    lane: Lane
    creates: bool
    """May create a key that was not there."""
    drops_ttl: bool
    """May leave a key without the lifetime that it had."""
    only_reads: bool
    """Changes nothing. Scripts, unknown commands and what a module does not flag as a read may."""
    process_bound: bool
    """Whoever sends it counts on what dies with the server process: loaded scripts and functions, tracking."""
    over_nodes: OverNodes
    """Where it goes on a cluster, and how replies join."""
    since: str
    engines: tuple[str, ...]
    """Where it was seen: ``valkey-9.1``, ``redis-7.0``, …; empty when only a running engine told of it."""
    may_have_keys: bool = field(init=False, compare=False)
    """Some request of the command has keys. Told once, as every rule asks each time that a policy is compiled."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "may_have_keys", any(key_spec.names_keys for key_spec in self.key_specs))

    @property
    def display(self) -> str:
        """The name as people write it: ``CLIENT SETNAME``."""
        return self.name.replace("|", " ")

    @property
    def write(self) -> bool:
        """Flagged as a write by the engine. Scripts are not: what they do is known only to them."""
        return "write" in self.flags

    @property
    def one_reply(self) -> bool:
        """Whether the command is answered by exactly one frame that is no push, whatever its arguments."""
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
