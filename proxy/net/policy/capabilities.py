"""The capabilities of a route's Redis: engine, version, and the commands that its users may run.

HELLO tells the engine. A probe on a connection that no client uses tells which commands for rewrites a user may run. If
no table has a command, the first client that sends it asks Redis; other clients that send it wait for that reply.
"""

import asyncio
from functools import partial
from typing import NamedTuple

from proxy.commands.table import STANDARD, Table
from proxy.net.connection.engine import Engine, complete_table
from proxy.net.connection.group_counts import GroupCount, counts_in
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.downstream.waiting import bring_on
from proxy.net.policy.rights import NAMES, Rights
from proxy.net.topology.topology import Topology
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.ports.pool_waiter import PoolWaiter
from proxy.session.ports.ports import CapabilityPort, CommandName
from proxy.wire.limits import limits_of
from proxy.wire.request import RequestLimits

_UNKNOWN_REMEMBERED = 1024
_LONGEST_REMEMBERED = 256
"""Longest unknown command name that Keyrail remembers, in bytes. It asks about longer ones each time."""


class ClusterFoundError(Exception):
    """The upstream is a node of a cluster, and was taken for one server: its route is to be made anew."""


def _limits_of(engine: Engine, authenticated: bool) -> RequestLimits:
    return limits_of(engine.name, engine.version, authenticated)


def _renew(limits: RequestLimits, now: RequestLimits) -> None:
    limits.arguments, limits.bulk, limits.large = now.arguments, now.bulk, now.large
    limits.authenticated, limits.mixed_quotes = now.authenticated, now.mixed_quotes


class _Probe(NamedTuple):
    """The session that asks about a command, and the sessions that wait for the answer."""

    waiter: PoolWaiter
    waiting: dict[PoolWaiter, None]


class Capabilities(CapabilityPort):
    """The capabilities of one route's Redis.

    ``needs_password``: Redis asks for a password that Keyrail does not have. ``hello``: HELLO exists. ``rights`` are
    those of users. ``refusal`` is the reason why this Redis is not served.

    Of several nodes, what is known is true for all: ``engine`` is the oldest of theirs.

    All of it can change while Redis runs, so nothing that follows from it is kept elsewhere. All clients share the two
    ``RequestLimits`` of this object, which change in place.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        topology: Topology,
        users: GroupCount | None = None,
        table: Table = STANDARD,
    ) -> None:
        """``users`` counts changes of users and passwords in the process group. ``table`` has what is known of commands
        before the engine is."""
        self.hello = True
        self.rights = Rights(loop.time)
        self.refusal: str | None = None
        self._loop = loop
        self._topology = topology
        self._table = table
        self._engine: Engine | None = None
        self._engines: dict[Node, Engine] = {}
        self._users = counts_in(memoryview(bytearray(16)), 1, 0).users if users is None else users
        self._needs_password = False
        self._told_in = b""
        self._doubted = False
        self._limits = {authenticated: _limits_of(Engine(), authenticated) for authenticated in (True, False)}
        self._limits_before_login = _limits_of(Engine(), authenticated=False)
        self._lacking: set[CommandName] = set()
        self._probing: dict[CommandName, _Probe] = {}

    @property
    def engine(self) -> Engine | None:
        """The engine that connections have reported; None before the first one."""
        return self._engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self._engine = engine
        self._renew_limits()

    @property
    def needs_password(self) -> bool:
        """Whether Redis asks for a password that Keyrail does not have."""
        return self._needs_password

    @needs_password.setter
    def needs_password(self, needs_password: bool) -> None:
        self._needs_password = needs_password
        self._told_in = self._users.counts()
        self._doubted = False
        self._renew_limits()

    def doubts_password(self) -> bool:
        """Whether users or passwords have changed since Redis asked for a password: then its limits for clients without
        a login may hold no more, and none are set here until it is known."""
        if self._needs_password and not self._doubted and self._told_in != self._users.counts():
            self._doubted = True
            self._renew_limits()
        return self._doubted

    def _renew_limits(self) -> None:
        engine = self._engine or Engine()
        for authenticated, limits in self._limits.items():
            _renew(limits, _limits_of(engine, authenticated or self._doubted or not self._needs_password))
        _renew(self._limits_before_login, _limits_of(engine, authenticated=False))

    async def meet(self, upstream: UpstreamConnection, found: Engine) -> bool:
        """Store the engine behind a connection; return False if it must not be served.

        Raises ConnectionResetError.
        """
        node = upstream.key.node
        if found.cluster and self._topology.router is None:
            self.refusal = f"{self._topology.address(node)} is a node of a cluster"
            return False
        known = self._engines.get(node)
        if known is None or not known.is_like(found):
            await complete_table(upstream, found, self._table)
            if node in self._topology.nodes:
                if known is not None:
                    self.rights.renew(node)
                self._engines[node] = found
                self._settle()
        return True

    def leave(self, node: Node) -> None:
        """This node has gone: what it did not have, the others may have."""
        self._engines.pop(node, None)
        self.rights.leave(node)
        self._settle()

    def _settle(self) -> None:
        oldest = min(self._engines.values(), key=lambda engine: engine.version or (), default=None)
        if oldest is not None and (self.engine is None or not self.engine.is_like(oldest)):
            self.engine = oldest
            self._lacking.clear()

    # What users may run

    @property
    def able(self) -> dict[str | None, frozenset[str]]:
        """The probed commands that each user may run (None: the route's own login)."""
        return self.rights.able

    def knows_user(self, user: str) -> bool:
        """Whether this user has been probed."""
        return self.rights.known(user)

    def renew(self, node: Node) -> None:
        """Redis has restarted there: nothing is known."""
        self.rights.renew(node)
        self._lacking.clear()

    def table(self) -> Table:
        """The commands that this engine has."""
        return self._table if self.engine is None else self.engine.table

    def limits(self, authenticated: bool, must_log_in: bool = False) -> RequestLimits:
        """The limits of a request: one object for all clients, which changes in place."""
        if must_log_in and not authenticated:
            return self._limits_before_login
        # Who came while no password was asked for has a login, as in Redis, for as long as it stays.
        has_login = self._engine is not None and (self._doubted or not self._needs_password)
        return self._limits[authenticated or has_login]

    def names_protocol_in_hello(self) -> bool:
        """Whether the error for HELLO before a login names the protocol: in Valkey, and in Redis from 7.2 on."""
        engine = self.engine
        if engine is None:
            return True
        return engine.name == "valkey" or engine.version is None or engine.version >= (7, 2)

    def empty_request_counts(self) -> bool:
        """Whether a request without arguments ends what holds for one command: in Valkey, and in Redis before 8. Seen
        in Redis 8.2; a Redis 8 to which it is not sent cannot read it otherwise."""
        engine = self.engine
        return engine is None or engine.name == "valkey" or engine.version is None or engine.version < (8,)

    def keeps_names(self, key: PoolKey) -> bool:
        """Whether this user may run CLIENT. If not, Redis answers it with its own error."""
        return not self.unauthenticated(key) and NAMES in self.able.get(key.user, {NAMES})

    def unauthenticated(self, key: PoolKey) -> bool:
        """Whether nobody has logged in on this pool's connections, although Redis asks for a password."""
        return self.needs_password and key.user is None

    def any_command_covers(self) -> bool:
        """Whether any command moves its connection's replication offset up to the server's: not in Valkey."""
        return self.engine is not None and self.engine.name != "valkey"

    def answers_tracking_once(self) -> bool:
        """Whether the engine answers CLIENT TRACKING once, also if its prefixes overlap. Seen in Valkey 9.1, and not in
        Redis 6.2, 7.0 and 8.2."""
        engine = self.engine
        if engine is None or engine.version is None:
            return False
        return engine.name == "valkey" and engine.version >= (9, 1)

    def looks_up_subcommands(self) -> bool:
        """Whether the engine refuses an unknown subcommand before all else, in MULTI, too: not Redis 6.2."""
        engine = self.engine
        return engine is None or engine.name == "valkey" or engine.version is None or engine.version >= (7, 0)

    def is_valkey(self) -> bool:
        """Whether the engine is Valkey."""
        return self.engine is not None and self.engine.name == "valkey"

    def names_libraries(self) -> bool:
        """Whether the engine knows CLIENT SETINFO."""
        return self.engine is not None and self.engine.names_libraries()

    # Commands that no table knows

    def lacks(self, name: CommandName) -> bool:
        """Whether the engine has said that it does not know this command."""
        return name in self._lacking

    def has(self, name: CommandName) -> None:
        """The engine knows this command."""
        self._lacking.discard(name)

    def probing(self, name: CommandName) -> bool:
        """Whether a session is asking about it now."""
        return name in self._probing

    def await_probe(self, waiter: PoolWaiter, name: CommandName) -> None:
        """Wait for that session's answer."""
        self._probing[name].waiting[waiter] = None

    def begin_probe(self, waiter: PoolWaiter, name: CommandName) -> None:
        """A session is about to ask."""
        self._probing[name] = _Probe(waiter, {})

    def behind(self, waiter: PoolWaiter) -> list[PoolWaiter]:
        """The sessions that wait for this session's question."""
        return [waiting for probe in self._probing.values() if probe.waiter is waiter for waiting in probe.waiting]

    def end_probe(self, name: CommandName, lacking: bool) -> None:
        """It has its answer."""
        if lacking and len(self._lacking) < _UNKNOWN_REMEMBERED and sum(map(len, name)) <= _LONGEST_REMEMBERED:
            self._lacking.add(name)
        self._loop.call_soon(partial(bring_on, self._loop, self._probing.pop(name).waiting))
