"""A command's connection state, its lane, and what it creates and changes, from its flags and its row.

An engine's COMMAND tells arity, flags and keys, which prove some of these facts; ``rows`` has the others. If neither
decides, the command is *undecided*. ``generate`` and the tests refuse a table with an undecided command. A running
proxy may meet one in a newer engine, and keeps it on a private connection.
"""

from proxy.commands.over_nodes import ANY_NODE, TO_SLOT, OverNodes
from proxy.commands.row import Row
from proxy.commands.rows import ROWS
from proxy.commands.spec import ConnectionState, Lane

_NO_ROW = Row("")

HANDSHAKE = frozenset(row.name for row in ROWS.values() if row.handshake)
"""Commands that client libraries send while they connect. The libraries branch on the errors of these commands."""

READ_KEYS = frozenset(row.name for row in ROWS.values() if row.reads_keys)
"""Commands that only read their keys, although the engine says RW."""


def state_of(name: str, flags: frozenset[str], has_keys: bool, container: bool) -> ConnectionState | None:
    """The connection state that the command needs or makes; None if nothing here decides it.

    Flags prove: a blocking command blocks; an admin subcommand is about the server; a command with keys and without
    channels that scripts may run has nothing to do with its connection, since a script has no connection.
    """
    stated = _row(name).state
    if stated is None:
        stated = _row(name.partition("|")[0]).subcommands
        if stated is ConnectionState.POOL and "admin" in flags and "write" not in flags and not container:
            stated = ConnectionState.ADMIN
    if "blocking" in flags and stated in (None, ConnectionState.POOL):
        return ConnectionState.BLOCKING
    if stated is not None:
        return stated
    if container or "module" in flags:
        return ConnectionState.POOL
    if has_keys and not flags & {"noscript", "pubsub", "no_multi"}:
        return ConnectionState.POOL
    return None


def lane_of(name: str, flags: frozenset[str]) -> Lane:
    """SLOW for a command that can delay the commands behind it. What a module's command does is unknown: SLOW, too."""
    return Lane.SLOW if _row(name).slow or "module" in flags else Lane.FAST


_RUN_SCRIPTS = frozenset({"text", "sha", "function"})
_CHANGING = frozenset({"write", "may_replicate", "admin", "noscript", "pubsub", "blocking"})


def creates_of(name: str, flags: frozenset[str]) -> bool | None:
    """Whether the command may create a key; None for a write if nothing here decides it."""
    row = _row(name)
    if row.creates is not None or row.creates_elsewhere:
        return True
    if row.never_creates or "write" not in flags:
        return False
    return None


def over_nodes(
    name: str, flags: frozenset[str], tips: OverNodes | None, *, has_keys: bool, container: bool
) -> OverNodes | None:
    """Where the command goes on a cluster, and how replies join; None where nothing here decides it.

    ``has_keys`` counts channels that are hashed like keys. A module's commands without keys ask the other nodes
    themselves, or are about none.
    """
    stated = _row(name).over_nodes
    if stated is not None:
        return stated
    if has_keys:
        return tips or TO_SLOT
    if name.endswith("|HELP"):
        return ANY_NODE
    if "|" in name:
        stated = _row(name.partition("|")[0]).subcommands_over_nodes
    if stated is None:
        stated = tips
    return ANY_NODE if stated is None and (container or "module" in flags) else stated


def drops_ttl(name: str) -> bool:
    """Whether the command may remove the TTL of a key."""
    return _row(name).drops_ttl


def only_reads(name: str, flags: frozenset[str], *, container: bool) -> bool:
    """Whether the command changes nothing: neither data, nor the server, nor what other clients wait for."""
    if _row(name).only_reads:
        return True
    told = "readonly" in flags or not (container or "module" in flags)
    return told and not flags & _CHANGING


def own_errors(name: str, flags: frozenset[str]) -> bool:
    """Whether the command may answer an error of any text after it has run: a script returns whatever it likes."""
    return _row(name).script in _RUN_SCRIPTS or "module" in flags


def process_bound(name: str, categories: frozenset[str]) -> bool:
    """Whether the client relies on memory that the server loses when it restarts.

    For example, ioredis keeps a list of loaded scripts for each socket, and does not load them again inside MULTI.
    """
    stated = _row(name).process_bound
    return "scripting" in categories if stated is None else stated


def at_primary(name: str) -> bool:
    """Whether a replica's answer would mislead clients that mean the primary."""
    return _row(name).at_primary or _row(name.partition("|")[0]).at_primary


def may_change_data(name: str, flags: frozenset[str]) -> bool:
    """Whether the command may change stored data. A module's command is assumed to."""
    return "write" in flags or _row(name).changes_data or ("module" in flags and "readonly" not in flags)


def _row(name: str) -> Row:
    return ROWS.get(name, _NO_ROW)
