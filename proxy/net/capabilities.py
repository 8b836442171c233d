"""What a route knows of its Redis, and what its sessions may ask of that.

Connections find it out: HELLO says what the engine is, a probe on nobody's connection says which of the commands that
rewrites need a user may run, and a command that no table knows is asked about by the first client that sends it, while
others that send it wait for that answer.
"""

import asyncio
import math
import re
from typing import NamedTuple

from proxy.commands.table import Table
from proxy.net.engine import Engine, complete_table
from proxy.net.topology import Topology
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_waiter import PoolWaiter
from proxy.session.ports import CapabilityPort, CommandName, Node, PoolKey
from proxy.wire.limits import limits_of
from proxy.wire.request import RequestLimits

NAMES = "CLIENT"
"""CLIENT SETNAME and its relatives are answered by Keyrail, for those who may use them."""

_UNKNOWN_REMEMBERED = 1024
_LONGEST_REMEMBERED = 256
"""Bytes of a name that no engine knows; a longer one is asked about each time."""


_DOUBTED_SECONDS = 1.0
"""From one look at what a user may run to the next, where an error speaks against the last one."""
_LACKING_SECONDS = 5.0
"""The same where the user lacks something that it may have got since."""

_REFUSED = re.compile(rb"-(?:NOPERM [^'`]*|ERR unknown command )['`]([^'`\s]+)")


class ClusterFoundError(Exception):
    """The upstream is a node of a cluster, and was taken for one server: its route is to be made anew."""


def _limits_of(engine: Engine, authenticated: bool) -> RequestLimits:
    return limits_of(engine.name, engine.version, authenticated)


def _renew(limits: RequestLimits, now: RequestLimits) -> None:
    limits.arguments, limits.bulk, limits.large = now.arguments, now.bulk, now.large
    limits.authenticated, limits.mixed_quotes = now.authenticated, now.mixed_quotes


class _Probe(NamedTuple):
    """Who asks about a command, and who waits for the answer."""

    waiter: PoolWaiter
    waiting: list[PoolWaiter]


class Capabilities(CapabilityPort):
    """What is known of one route's Redis.

    ``needs_password`` says that Redis asks for a password that Keyrail was not given; ``hello`` that HELLO exists
    there. ``able`` has the probed commands that each user may run, None being the route's own login, and ``doubted``
    the users of whom that is to be found out again; ``unknown`` has those that the engine does not have.
    ``refusal`` is why this Redis is not served at all.

    Of several nodes, what is known is true for all: ``engine`` is the oldest of theirs.

    All of it can change while Redis runs. So nothing that follows from it is kept elsewhere: all clients share the two
    ``RequestLimits`` of here, which change in place.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, topology: Topology) -> None:
        self.hello = True
        self.able: dict[str | None, frozenset[str]] = {}
        self.unknown: frozenset[str] = frozenset()
        self.doubted: set[str | None] = set()
        self.refusal: str | None = None
        self._loop = loop
        self._topology = topology
        self._engine: Engine | None = None
        self._engines: dict[Node, Engine] = {}
        self._asked_at: dict[str | None, float] = {}
        self._needs_password = False
        self._limits = {authenticated: _limits_of(Engine(), authenticated) for authenticated in (True, False)}
        self._limits_before_login = _limits_of(Engine(), authenticated=False)
        self._lacking: set[CommandName] = set()
        self._probing: dict[CommandName, _Probe] = {}

    @property
    def engine(self) -> Engine | None:
        """What the connections have described; None as long as none has."""
        return self._engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self._engine = engine
        self._renew_limits()

    @property
    def needs_password(self) -> bool:
        """Whether Redis asks for a password that Keyrail was not given."""
        return self._needs_password

    @needs_password.setter
    def needs_password(self, needs_password: bool) -> None:
        self._needs_password = needs_password
        self._renew_limits()

    def _renew_limits(self) -> None:
        engine = self._engine or Engine()
        for authenticated, limits in self._limits.items():
            _renew(limits, _limits_of(engine, authenticated or not self._needs_password))
        _renew(self._limits_before_login, _limits_of(engine, authenticated=False))

    async def meet(self, upstream: UpstreamConnection, found: Engine) -> bool:
        """Take note of the engine behind a connection; False when it is one that must not be served.

        Raises ConnectionResetError.
        """
        node = upstream.key.node
        if found.cluster and self._topology.router is None:
            self.refusal = f"{self._topology.address(node)} is a node of a cluster"
            return False
        known = self._engines.get(node)
        if known is None or not known.is_like(found):
            await complete_table(upstream, found)
            self._engines[node] = found
            self._settle()
        return True

    def leave(self, node: Node) -> None:
        """This node has gone: what it did not have, the others may have."""
        self._engines.pop(node, None)
        self._settle()

    def _settle(self) -> None:
        oldest = min(self._engines.values(), key=lambda engine: engine.version or (), default=None)
        if oldest is not None and (self.engine is None or not self.engine.is_like(oldest)):
            self.engine = oldest
            self._lacking.clear()
            self.able.clear()

    # What users may run

    def asks_about(self, user: str | None, lacks: bool) -> bool:
        """Whether it is time to find out what this user may run; ``lacks``: it could not run all that rules send."""
        if user not in self.able:
            return True
        age = self._loop.time() - self._asked_at.get(user, -math.inf)
        return (user in self.doubted and age >= _DOUBTED_SECONDS) or (lacks and age >= _LACKING_SECONDS)

    def knows_user(self, user: str) -> bool:
        """Whether it has been found out what this user may run, as well as that can be."""
        return user in self.able

    def look_at(self, user: str | None) -> None:
        """It is being found out now: whatever is said from here on is a new doubt."""
        self._asked_at[user] = self._loop.time()
        self.doubted.discard(user)

    def doubt_at_once(self, user: str | None) -> None:
        """It has to be found out anew, however short a while ago it was."""
        self._asked_at.pop(user, None)
        self.doubted.add(user)

    def contradicts(self, user: str | None, line: bytes) -> bool:
        """Whether an error about a command is about one that this user is believed to be able to run.

        The text may be a script's own, so it proves nothing: it is a reason to ask.
        """
        found = _REFUSED.match(line)
        name = "" if found is None else found[1].decode("ascii", "replace").upper().partition("|")[0]
        return name in self.able.get(user, frozenset())

    def forget(self, user: str | None) -> None:
        """Nobody is logged in as this user any more; what the next one may run is found out then."""
        self.able.pop(user, None)
        self._asked_at.pop(user, None)
        self.doubted.discard(user)

    def forget_all(self) -> None:
        """Redis is another process than before."""
        for user in list(self.able):
            self.forget(user)
        self._lacking.clear()

    def table(self) -> Table:
        """The commands that this engine has."""
        return (self.engine or Engine()).table

    def limits(self, authenticated: bool, must_log_in: bool = False) -> RequestLimits:
        """What a client may announce: the same object for all clients, kept up to date."""
        return self._limits_before_login if must_log_in and not authenticated else self._limits[authenticated]

    def names_protocol_in_hello(self) -> bool:
        """Whether the error for HELLO before a login names the protocol: in Valkey, and in Redis from 7.2 on."""
        engine = self.engine
        if engine is None:
            return True
        return engine.name == "valkey" or engine.version is None or engine.version >= (7, 2)

    def keeps_names(self, key: PoolKey) -> bool:
        """Whether this user may use CLIENT at all: if not, Redis is to say so itself."""
        return not self.unauthenticated(key) and NAMES in self.able.get(key.user, {NAMES})

    def unauthenticated(self, key: PoolKey) -> bool:
        """Whether nobody has logged in on this pool's connections, although Redis asks for a password."""
        return self.needs_password and key.user is None

    def any_command_covers(self) -> bool:
        """Whether any command moves its connection's replication offset up to the server's: not in Valkey."""
        return self.engine is not None and self.engine.name != "valkey"

    def names_libraries(self) -> bool:
        """Whether the engine knows CLIENT SETINFO."""
        return self.engine is not None and self.engine.names_libraries()

    # Commands that no table knows

    def lacks(self, name: CommandName) -> bool:
        """Whether the engine has said that it does not know this command."""
        return name in self._lacking

    def has(self, name: CommandName) -> None:
        """The engine knows this command, whatever it said before."""
        self._lacking.discard(name)

    def probing(self, name: CommandName) -> bool:
        """Whether a session is asking about it now."""
        return name in self._probing

    def await_probe(self, waiter: PoolWaiter, name: CommandName) -> None:
        """Wait for that session's answer."""
        self._probing[name].waiting.append(waiter)

    def begin_probe(self, waiter: PoolWaiter, name: CommandName) -> None:
        """A session is going to ask."""
        self._probing[name] = _Probe(waiter, [])

    def behind(self, waiter: PoolWaiter) -> list[PoolWaiter]:
        """Those who wait for what this session is going to ask."""
        return [waiting for probe in self._probing.values() if probe.waiter is waiter for waiting in probe.waiting]

    def end_probe(self, name: CommandName, lacking: bool) -> None:
        """It has its answer."""
        if lacking and len(self._lacking) < _UNKNOWN_REMEMBERED and sum(map(len, name)) <= _LONGEST_REMEMBERED:
            self._lacking.add(name)
        for waiter in self._probing.pop(name).waiting:
            if not waiter.gone:
                self._loop.call_soon(waiter.arrived)
