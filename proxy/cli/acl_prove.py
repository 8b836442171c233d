"""`keyrail acl --prove`: asks an engine whether the users of an ACL are as wide as the policy.

Users are made there for a moment, with names and passwords of chance. So the engine must be nobody else's: it is the
embedded Valkey, or a server that has no keys, users, replicas or other clients, and is no node of a cluster.

From Redis 7.0 on, ACL DRYRUN tells what a user may run. Before, Redis tells it when that user queues the command in
MULTI.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeAlias

import hiredis

from proxy.commands.table import STANDARD
from proxy.net.config.address import UpstreamAddress
from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.info_figures import read_info
from proxy.net.connection.tls import TlsError, upstream_context
from proxy.net.embedded.embedded import EmbeddedEngine, EmbeddedError
from proxy.policy.acl import Acl, Version
from proxy.policy.acl.own_commands import ALWAYS_RUN
from proxy.policy.acl.proof import Question
from proxy.server.evidence.model import EvidenceError
from proxy.server.evidence.sample_keys import with_sample_keys
from proxy.server.evidence.store import read_store
from proxy.server.notices import notice
from proxy.server.state_folder import EVIDENCE
from proxy.server.stored.link import ServerLink, why_not
from proxy.server.stored.node_walk import Request
from proxy.traffic.exemplars import remade

_SECONDS = 10.0
_AT_ONCE = 200
_IN_NO_QUEUE = frozenset({"MULTI", "EXEC", "DISCARD", "WATCH"})
"""Before 7.0, these run although a transaction is open."""
_CLOSING = frozenset({"POST", "HOST:"})
_Argv: TypeAlias = tuple[bytes, ...]
_Asked: TypeAlias = tuple[str, _Argv]
"""A user, and the command that it may run or not."""


class ProofError(Exception):
    """Nothing can be proved; the text says why."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What an ``engine`` has said to so many ``questions``. It does not know the commands of the ``unknown`` ones, or
    not with these arguments. ``faults`` are in words."""

    engine: str
    questions: int
    unknown: int
    faults: Sequence[str]


async def prove(acl: Acl, version: Version, questions: Sequence[Question], where: UpstreamAddress | None) -> Proof:
    """Ask the engine at this address, or the embedded one. Raises ProofError."""
    try:
        async with _address(where) as address, _linked(address) as admin:
            engine = await _checked(admin, version, is_ours=where is None)
            async with _users(admin, acl) as logins:
                told = await _Asking(admin, address, version, logins).told(questions)
    except EmbeddedError as error:
        raise ProofError(str(error).replace("--embedded", "without a URL, --prove")) from None
    except (UpstreamRefusedError, TlsError) as error:
        raise ProofError(f"{where}: {error}".replace("--upstream", "--prove")) from None
    except OSError as error:
        raise ProofError(f"{where or 'the embedded Valkey'}: {why_not(error)}") from None
    faults = (each.fault(told[each.user, each.asked]) for each in questions)
    unknown = sum(told[each.user, each.asked] is None for each in questions)
    return Proof(engine, len(questions), unknown, [*dict.fromkeys(filter(None, faults))])


@asynccontextmanager
async def _address(where: UpstreamAddress | None) -> AsyncIterator[UpstreamAddress]:
    if where is not None:
        yield where
        return
    engine = await EmbeddedEngine.start()
    try:
        yield engine.upstream
    finally:
        await engine.stop()


@asynccontextmanager
async def _linked(address: UpstreamAddress) -> AsyncIterator[ServerLink]:
    async def find() -> UpstreamAddress:
        return address

    tls = None if address.tls is None else upstream_context(address.tls, notice)
    link = ServerLink(find, tls, _SECONDS)
    await link.connect()
    try:
        yield link
    finally:
        link.close()


async def _ask(link: ServerLink, *commands: _Argv) -> Sequence[Any]:
    return (await link.ask(Request(None, commands))).replies


def recorded(folder: Path) -> Iterator[tuple[str, _Argv]]:
    """The apps and commands of the forms that are recorded in a state folder, as far as their exemplars tell. Raises
    ProofError."""
    try:
        evidence = read_store(folder / EVIDENCE, 0.0)
    except EvidenceError as error:
        raise ProofError(str(error)) from None
    for rows in evidence.hours.values():
        for key, row in rows.forms.items():
            for each in row.exemplars:
                if (made := remade(each.words, key.command, key.shape, key.form, STANDARD)) is not None:
                    yield key.who.app, tuple(with_sample_keys(made).command.argv)


# An engine that is nobody else's


async def _checked(admin: ServerLink, version: Version, *, is_ours: bool) -> str:
    """The engine's name and version. Raises ProofError if the ACL is for another one, or if it is not private."""
    told, users, clients = await _ask(admin, (b"INFO",), (b"ACL", b"LIST"), (b"CLIENT", b"LIST"))
    for reply in (told, users, clients):
        if isinstance(reply, hiredis.ReplyError):
            raise ProofError(f"it cannot be told whether the server is private: {reply}")
    info = read_info(told)
    name = info.get("server_name", "redis")
    number = info.get(f"{name}_version", "")
    if f"{name}-{'.'.join(number.split('.')[:2])}" != version.engine:
        raise ProofError(f"the server is {name} {number}: it can prove nothing about {version.engine}")
    reason = "" if is_ours else _not_private(info, len(users), len(clients.splitlines()))
    if reason:
        raise ProofError(f"the server {reason}: give one that nobody else uses, since users are made there")
    return f"{name} {number}"


def _not_private(info: Mapping[str, str], users: int, clients: int) -> str:
    if any(name.startswith("db") and "keys=" in value for name, value in info.items()):
        return "has keys"
    if users != 1:
        return "has users beside default"
    if info.get("cluster_enabled") != "0":
        return "is a node of a cluster"
    if (info.get("role"), info.get("connected_slaves")) != ("master", "0"):
        return "is a replica, or has one"
    return f"has {clients - 1} other clients" if clients != 1 else ""


@asynccontextmanager
async def _users(admin: ServerLink, acl: Acl) -> AsyncIterator[dict[str, tuple[bytes, bytes]]]:
    """Make the ACL's users under other names, until the end of the block: the names, and their passwords."""
    mark = token_hex(8)
    logins = {
        user.name: (b"keyrail-proof-%b-%d" % (mark.encode(), number), token_hex(32).encode())
        for number, user in enumerate(acl.users)
    }
    try:
        for user in acl.users:
            name, password = logins[user.name]
            words = (word.encode() for word in user.words)
            (reply,) = await _ask(admin, (b"ACL", b"SETUSER", name, *words, b">" + password))
            if reply != b"OK":
                raise ProofError(f"the server does not take the ACL of user {user.name}: {reply}")
        yield logins
    finally:
        await _forget(admin, [name for name, _ in logins.values()])


async def _forget(admin: ServerLink, users: Sequence[bytes]) -> None:
    command = b"ACL", b"DELUSER", *users
    try:
        await _ask(admin, command)
    except OSError:  # the connection was lost before
        await admin.connect()
        await _ask(admin, command)


# Questions


class _Asking:
    """Asks what users may run."""

    def __init__(
        self, admin: ServerLink, address: UpstreamAddress, version: Version, logins: Mapping[str, tuple[bytes, bytes]]
    ) -> None:
        self._admin = admin
        self._address = address
        self._version = version
        self._logins = logins

    async def told(self, questions: Iterable[Question]) -> dict[_Asked, bool | None]:
        """Whether a user may run a command; None: the engine does not know it, or not with these arguments."""
        told: dict[_Asked, bool | None] = {}
        by_user: dict[str, dict[_Argv, None]] = {}
        for each in questions:
            name = STANDARD.spec_of(each.asked).name
            if name in ALWAYS_RUN or name in _CLOSING:
                told[each.user, each.asked] = True if name in ALWAYS_RUN else None
            else:
                by_user.setdefault(each.user, {})[each.asked] = None
        for user, asked in by_user.items():
            answers = self._dry_run if self._version.selectors else self._queued
            told |= {(user, argv): reply async for argv, reply in answers(user, [*asked])}
        return told

    async def _dry_run(self, user: str, asked: Sequence[_Argv]) -> AsyncIterator[tuple[_Argv, bool | None]]:
        name, _ = self._logins[user]
        for some in _parts(asked):
            replies = await _ask(self._admin, *((b"ACL", b"DRYRUN", name, *argv) for argv in some))
            for argv, reply in zip(some, replies, strict=True):
                yield argv, None if isinstance(reply, hiredis.ReplyError) else reply == b"OK"

    async def _queued(self, user: str, asked: Sequence[_Argv]) -> AsyncIterator[tuple[_Argv, bool | None]]:
        async with _linked(self._address) as link:
            await _ask(link, (b"AUTH", *self._logins[user]))
            for some in _parts(asked):
                commands, places = list[_Argv](), list[int]()
                for argv in some:
                    commands += () if STANDARD.spec_of(argv).name in _IN_NO_QUEUE else ((b"MULTI",),)
                    places.append(len(commands))
                    commands += (argv, (b"DISCARD",))
                replies = await _ask(link, *commands)
                for argv, place in zip(some, places, strict=True):
                    yield argv, _may_queue(replies[place])


def _may_queue(reply: Any) -> bool | None:
    text = str(reply) if isinstance(reply, hiredis.ReplyError) else ""
    if text.startswith(("ERR unknown command", "ERR wrong number of arguments")):
        return None
    return not text.startswith("NOPERM")


def _parts(asked: Sequence[_Argv]) -> Iterator[Sequence[_Argv]]:
    return (asked[begin : begin + _AT_ONCE] for begin in range(0, len(asked), _AT_ONCE))
