"""What a route knows of its Redis, and what its sessions may ask of that.

Connections find it out: HELLO says what the engine is, a probe on nobody's connection says which of the commands that
rewrites need a user may run, and a command that no table knows is asked about by the first client that sends it, while
others that send it wait for that answer.
"""

import asyncio
from typing import NamedTuple

from proxy.commands.table import Table
from proxy.net.engine import Engine, complete_table
from proxy.net.upstream import UpstreamConnection
from proxy.session.gate import CommandName, PoolKey, Seeker
from proxy.wire.limits import limits_of
from proxy.wire.request import Limits

NAMES = "CLIENT"
"""CLIENT SETNAME and its kin are answered by Keyrail, for those who may use them."""

_UNKNOWN_REMEMBERED = 1024
_LONGEST_REMEMBERED = 256
"""Bytes of a name that no engine knows; a longer one is asked about each time."""


class _Probe(NamedTuple):
    """Who asks about a command, and who waits for the answer."""

    seeker: Seeker
    waiting: list[Seeker]


class Knowledge:
    """What is known of one route's Redis.

    ``stranger`` says that Redis asks for a password that Keyrail was not given; ``hello`` that HELLO exists there.
    ``able`` has the probed commands that each user may run, None being the route's own login. ``refusal`` is why this
    Redis is not served at all.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str, allow_cluster: bool) -> None:
        self.engine: Engine | None = None
        self.stranger = False
        self.hello = True
        self.able: dict[str | None, frozenset[str]] = {}
        self.refusal: str | None = None
        self._loop = loop
        self._address = address
        self._allow_cluster = allow_cluster
        self._lacking: set[CommandName] = set()
        self._probing: dict[CommandName, _Probe] = {}

    async def meet(self, upstream: UpstreamConnection, found: Engine) -> bool:
        """Take note of the engine behind a connection; False when it is one that must not be served.

        Raises ConnectionResetError.
        """
        if found.cluster and not self._allow_cluster:
            self.refusal = (
                f"{self._address} is in cluster mode: clients would learn its nodes' addresses and walk around "
                "the policy; --allow-cluster says that they may"
            )
            return False
        if self.engine is None or self.engine.version != found.version:
            await complete_table(upstream, found)
            self.engine = found
            self._lacking.clear()
            self.able.clear()
        return True

    def table(self) -> Table:
        """The commands that this engine has."""
        return (self.engine or Engine()).table

    def limits(self, authenticated: bool) -> Limits:
        """What a client may announce."""
        engine = self.engine or Engine()
        return limits_of(engine.name, engine.version, authenticated or not self.stranger)

    def keeps_names(self, key: PoolKey) -> bool:
        """Whether this user may use CLIENT at all: if not, Redis is to say so itself."""
        return not self.strange(key) and NAMES in self.able.get(key.user, {NAMES})

    def strange(self, key: PoolKey) -> bool:
        """Whether nobody has logged in on this pool's connections, although Redis asks for a password."""
        return self.stranger and key.user is None

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

    def probing(self, name: CommandName) -> bool:
        """Whether a session is asking about it now."""
        return name in self._probing

    def await_probe(self, seeker: Seeker, name: CommandName) -> None:
        """Wait for that session's answer."""
        self._probing[name].waiting.append(seeker)

    def begin_probe(self, seeker: Seeker, name: CommandName) -> None:
        """A session is going to ask."""
        self._probing[name] = _Probe(seeker, [])

    def behind(self, seeker: Seeker) -> list[Seeker]:
        """Those who wait for what this session is going to ask."""
        return [waiting for probe in self._probing.values() if probe.seeker is seeker for waiting in probe.waiting]

    def end_probe(self, name: CommandName, lacking: bool) -> None:
        """It has its answer."""
        if lacking and len(self._lacking) < _UNKNOWN_REMEMBERED and sum(map(len, name)) <= _LONGEST_REMEMBERED:
            self._lacking.add(name)
        for seeker in self._probing.pop(name).waiting:
            if not seeker.gone:
                self._loop.call_soon(seeker.arrived)
