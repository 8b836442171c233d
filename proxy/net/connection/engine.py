"""The Redis behind a route: its engine, version and commands, and the information that it refuses.

Managed services block COMMAND, CONFIG, CLIENT, OBJECT, MONITOR or ACL. Keyrail serves clients without all of this.
``features_off`` lists what Keyrail cannot learn, with the reason.
"""

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import hiredis

from proxy.commands.error_texts import EXEC_BECAUSE, PROBE_ALLOWED, PROBE_FORBIDDEN, PROBE_REFUSED, PROBE_UNKNOWN
from proxy.commands.introspect import descriptions
from proxy.commands.table import STANDARD, Table
from proxy.net.connection.lacking import alias_unknown, renamed
from proxy.net.connection.upstream import UpstreamConnection
from proxy.wire.decode import read_reply
from proxy.wire.numbers import read_digits

_LIBRARY_NAMES_SINCE = (7, 2)
_REDIS_VERSION, _VALKEY_VERSION = (
    re.compile(rb"\n%b_version:([0-9]{1,4})\.([0-9]{1,4})\." % name) for name in (b"redis", b"valkey")
)
_RUN_ID = re.compile(rb"\nrun_id:([0-9a-zA-Z]+)\r\n")


@dataclass(slots=True)
class Engine:
    """The engine as its connections have described it."""

    name: str = "redis"
    version: tuple[int, ...] | None = None
    version_text: str = ""
    cluster: bool = False
    table: Table = STANDARD
    features_off: list[str] = field(default_factory=list)

    def is_like(self, other: "Engine") -> bool:
        """Whether it is the same engine in the same version."""
        return (self.name, self.version) == (other.name, other.version)

    def names_libraries(self) -> bool:
        """Whether CLIENT SETINFO exists: since Redis 7.2, and in every Valkey."""
        return self.name == "valkey" or (self.version is not None and self.version >= _LIBRARY_NAMES_SINCE)


def described_by(hello: Any) -> Engine | None:
    """The engine as HELLO's reply describes it; None if it is another reply."""
    hello = _pairs(hello)
    if hello is None:
        return None
    text = _text(hello.get(b"version", b""))
    return Engine(
        name=_text(hello.get(b"server", b"redis")),
        version=read_version(text),
        version_text=text,
        cluster=hello.get(b"mode") == b"cluster",
    )


def _pairs(reply: Any) -> dict[Any, Any] | None:
    # A map of RESP2 or RESP3; None for any other reply.
    if isinstance(reply, list) and len(reply) % 2 == 0:
        return dict(zip(reply[::2], reply[1::2], strict=True))
    return reply if isinstance(reply, dict) else None


def read_version(text: str) -> tuple[int, ...] | None:
    """``7.0.15`` as (7, 0, 15); None if it cannot be read."""
    parts = [read_digits(part) for part in text.split(".")]
    return None if None in parts else tuple(part for part in parts if part is not None)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def run_id_in(info: bytes) -> bytes | None:
    """The server process that INFO's reply names; None if the reply names none."""
    found = _RUN_ID.search(info)
    return None if found is None else found[1]


def replicates_slot_states(info: bytes) -> bool:
    """Whether a server that names itself so in INFO tells its replicas which slots are on their way to another node:
    Valkey does, from 8.0 on. Other replicas say of a key that has moved already that it does not exist."""
    return b"\nvalkey_version:" in info


def has_safe_no_touch(info: bytes) -> bool:
    """Whether CLIENT NO-TOUCH harms no server that names itself so in INFO. From Redis 8.0 and Valkey 8.1 on, a server
    crashes if a client that has sent it asks for a key of a slot that is on its way to another node, or wakes a blocked
    client (``lookupKey`` reads a null pointer): https://github.com/redis/redis/pull/14415, part of Redis 8.4, and
    https://github.com/valkey-io/valkey/pull/2347, part of Valkey 9.0."""
    found = _VALKEY_VERSION.search(info) or _REDIS_VERSION.search(info)
    if found is None:
        return False
    first, until = ((8, 1), (9, 0)) if found.re is _VALKEY_VERSION else ((8, 0), (8, 4))
    return not first <= (int(found[1]), int(found[2])) < until


async def is_replica(upstream: UpstreamConnection) -> bool:
    """Whether the server is a replica, by ROLE, or by HELLO if ROLE is not allowed.

    Raises ConnectionResetError.
    """
    role = read_reply(await upstream.ask(["ROLE"]))
    if isinstance(role, list) and role:
        return bool(role[0] == b"slave")
    return says_replica(await upstream.ask(["HELLO", upstream.key.protocol]))


def says_replica(hello: bytes) -> bool:
    """Whether a reply to HELLO is that of a replica."""
    told = _pairs(read_reply(hello))
    return told is not None and told.get(b"role") in (b"replica", b"slave")


async def complete_table(upstream: UpstreamConnection, engine: Engine, table: Table) -> None:
    """Give the engine this table, with the commands of its COMMAND reply that the table lacks, if it allows COMMAND."""
    engine.table = table
    reply = read_reply(await upstream.ask(["COMMAND"]))
    if isinstance(reply, hiredis.ReplyError):
        engine.features_off.append(f"Keyrail does not know the keys of module commands (COMMAND: {reply})")
        return
    engine.table = table.completed_by(reply)
    engine.features_off += await _renamed(upstream, table, reply)


async def _renamed(upstream: UpstreamConnection, table: Table, command_reply: Any) -> list[str]:
    # COMMAND lists commands by their own names, whatever `rename-command` has made of them; COMMAND INFO finds them by
    # the names that clients have to use (server.c, commandListCommand and lookupCommand).
    described = {found.name for found in descriptions(command_reply) if "|" not in found.name}
    names = sorted(name for name in described if table.find(name) is not None)
    aliases = sorted(table.aliases)
    reply = read_reply(await upstream.ask(["COMMAND", "INFO", *names, *aliases]))
    if not isinstance(reply, list) or len(reply) != len(names) + len(aliases):
        return []
    lacking = {name for name, found in zip((*names, *aliases), reply, strict=True) if not found}
    texts = [alias_unknown(alias) for alias in aliases if alias in lacking]
    if lost := sorted(lacking.difference(aliases, table.aliases.values())):
        texts.append(renamed(lost))
    return texts


_OK, _QUEUED, _NOT_NOW = b"+OK\r\n", b"+QUEUED\r\n", b"-ERR not now\r\n"


class Probed(NamedTuple):
    """The result of a probe: the user may run the ``able`` commands. For the ``unclear`` ones Redis did not say.

    The engine does not have the ``unknown`` ones, or not with the arguments that rules send. About the ``untold`` ones
    Redis was not asked, since the user may not run MULTI or DISCARD. The user may not run the other ones.
    """

    able: frozenset[str]
    unclear: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    untold: frozenset[str] = frozenset()


async def probe(upstream: UpstreamConnection, needs: frozenset[str]) -> Probed:
    """Which commands for rewrites this connection's user may run. None of them is run.

    Inside MULTI, Redis checks that a command exists and is allowed, and queues it, also behind one that it refuses.
    DISCARD drops all of them. No client may use the connection meanwhile. If MULTI or DISCARD is not allowed, nothing
    is known.
    """
    opened = await upstream.ask(["MULTI"])  # only once it is answered is it certain that what follows is not run
    if opened != _OK:
        return Probed(frozenset(), untold=needs) if PROBE_REFUSED.begin(opened) else Probed(frozenset(), unclear=needs)
    names = sorted(needs - {"EXEC"})
    asked = [upstream.ask([name, *(_PROBES.get(name) or _fewest(name))]) for name in names]
    *replies, ended = await asyncio.gather(*asked, upstream.ask(["DISCARD"]))
    told = dict(zip(names, replies, strict=True))
    if ended.startswith(b"+") and "EXEC" in needs:
        told["EXEC"], ended = await _exec_of_nothing(upstream)
    if not ended.startswith(b"+"):
        upstream.abort()
        return Probed(frozenset(), untold=needs)
    able = {name for name, reply in told.items() if _is_allowed(reply)}
    refused = {name for name, reply in told.items() if name not in able and PROBE_REFUSED.begin(reply)}
    unknown = {name for name in refused if PROBE_UNKNOWN.begin(told[name])}
    return Probed(frozenset(able), frozenset(told.keys() - able - refused), frozenset(unknown))


async def _exec_of_nothing(upstream: UpstreamConnection) -> tuple[bytes, bytes]:
    """What EXEC would have been answered as a queued command, and how its transaction has ended.

    Redis ends a transaction whose EXEC it refuses, and says why (server.c, rejectCommand; multi.c, execCommandAbort).
    """
    if await upstream.ask(["MULTI"]) != _OK:
        return _NOT_NOW, _OK
    ran = await upstream.ask(["EXEC"])
    if ran == b"*0\r\n":
        return _QUEUED, _OK
    if EXEC_BECAUSE.begin(ran):
        return b"-" + ran[len(EXEC_BECAUSE.beginnings[0]) :], _OK
    return ran, await upstream.ask(["DISCARD"])


def _is_allowed(reply: bytes) -> bool:
    # A node of a cluster asks whether the user may run a command before it asks whose its keys are (server.c,
    # processCommand). A user may be limited to keys that the probe does not name, which says nothing about the command
    # (acl.c, getAclErrorMessage: "to run" a command, "to access" keys). These errors contain the user name, which can
    # be any text.
    queued = reply.startswith(b"+QUEUED")
    return queued or PROBE_ALLOWED.begin(reply) or (PROBE_FORBIDDEN.begin(reply) and b" to access " in reply)


def _fewest(name: str) -> tuple[str, ...]:
    # The minimum number of arguments: with fewer, Redis would refuse the command. Their values do not matter, because
    # Redis does not read them before EXEC.
    spec = STANDARD.find(name)
    return ("keyrail",) * (1 if spec is None else abs(spec.arity) - 1)


_PROBES = {
    "CLIENT": ("GETNAME",),
    "EXPIRE": ("keyrail", "1", "NX"),
    "MSETEX": ("1", "keyrail", "", "EX", "1"),
    "EVAL": ("return 0", "0"),
}
"""Arguments of probes for commands that need certain ones: Redis looks for keys or a subcommand there, or, as EXPIRE
before Redis 7.0, refuses options by the number of arguments."""
