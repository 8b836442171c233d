"""Follows a DNS name to another primary, as managed services move it in a failover.

A name says nothing when it moves. So it is resolved again where a connection is lost or cannot be opened, and where the
server turns out to be a replica (an error said READONLY, and ROLE says so). While something is wrong, it is resolved
twice a second.

    one address     is used, also where it leads to a replica: perhaps that is meant
    several         the first one whose server calls itself primary (ROLE); the one in use stays while it is among them
    none            the last known one stays, as long as no other one is known

A server that has another address now, and the same run_id, is the same one: its connections stay.
"""

import asyncio
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from proxy.net.engine import is_replica
from proxy.net.links import ANSWER_SECONDS, Links
from proxy.net.primary import Primary
from proxy.net.slot_map import Endpoint
from proxy.net.tls import FollowedContext
from proxy.net.topology import Change
from proxy.net.upstream import UpstreamConnection
from proxy.net.watch import Looking
from proxy.session.pool_key import PoolKey

_UNSETTLED_SECONDS = 0.5
_RUN_ID = re.compile(rb"\nrun_id:([0-9a-zA-Z]+)\r\n")


@dataclass(frozen=True, slots=True)
class ServerState:
    """What a server says of itself; ``run_id`` is None if it does not say."""

    replica: bool
    run_id: bytes | None = None


async def resolve(loop: asyncio.AbstractEventLoop, host: str, port: int) -> Sequence[Endpoint]:
    """The addresses of a name, in the order of the resolver. Raises OSError."""
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(Endpoint(str(address[0]), port) for *_, address in found))


def chosen(
    found: Sequence[Endpoint], states: Mapping[Endpoint, ServerState], current: Endpoint | None
) -> Endpoint | None:
    """The address to use, of those that the name has now and of those that answer; None if the name has none."""
    primaries = [each for each in found if each in states and not states[each].replica]
    if current in primaries:
        return current
    answering = [each for each in found if each in states]
    return next(iter([*primaries, *([current] if current is not None else answering), *found]), None)


class NameWatch:
    """Follows the name in the login of one primary. ``adopted`` hears of each change.

    What is wrong is logged as of the route ``log_as``, if that is not empty.
    """

    def __init__(
        self,
        primary: Primary,
        loop: asyncio.AbstractEventLoop,
        connect_seconds: float,
        adopted: Callable[[Change], None],
        count: Callable[[str], None],
        log_as: str = "",
    ) -> None:
        self._primary = primary
        self._loop = loop
        self._connect_seconds = connect_seconds
        self._adopted = adopted
        self._looking = Looking(
            str(primary.login),
            loop,
            primary.doubted,
            count,
            log_as=log_as,
            well="the name leads to a primary",
            unsettled_seconds=_UNSETTLED_SECONDS,
        )
        self.attempted = self._looking.attempted
        key = PoolKey(None, 0, 2, primary.home)
        self._links = Links(primary.at, key, loop, lambda: None, count)
        self._run_id: bytes | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def problem(self) -> str:
        """What is not as it should be; empty where the name leads to a primary."""
        return self._looking.problem

    @property
    def settled(self) -> bool:
        """Whether an address is known."""
        return self._primary.endpoint is not None

    def begin(self, tls: FollowedContext | None) -> None:
        """Begin to look."""
        self._links.tls = tls
        self._task = self._loop.create_task(self._looking.go_on(self._look, self._has_news))

    def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
        self._links.close()

    async def _has_news(self) -> bool:
        return False

    async def _look(self) -> None:
        login, current = self._primary.login, self._primary.endpoint
        try:
            found = await asyncio.wait_for(resolve(self._loop, login.host, login.port), self._connect_seconds)
        except OSError as error:
            reason = "the resolver does not answer" if isinstance(error, TimeoutError) else error.strerror
            self._looking.report({f"{login.host} cannot be resolved: {reason}"})
            return
        asked = {*found} if current is None else {*found, current}
        seconds = self._connect_seconds if current is None else ANSWER_SECONDS
        states = await self._links.ask_all(asked, _state_of, seconds)
        server = chosen(found, states, current)
        if server is not None:
            self._adopt(server, states.get(server))
        problems = {*self._problems(found, states)}
        # The health of the node in use is told with its other figures.
        self._looking.report(problems, {f"{server}: {self._links.failures.get(server)}"} if server else ())
        # Nothing is asked until somebody doubts.
        self._links.forget_all_but(asked if problems else ())

    def _adopt(self, server: Endpoint, state: ServerState | None) -> None:
        run_id = None if state is None else state.run_id
        same = run_id is not None and run_id == self._run_id
        change = self._primary.adopt(server, same=same)
        if state is not None:
            self._run_id, self._primary.is_replica = run_id, state.replica
        if change.new:
            self._looking.changed()
            self._adopted(change)

    def _problems(self, found: Sequence[Endpoint], states: Mapping[Endpoint, ServerState]) -> Sequence[str]:
        host, server = self._primary.login.host, self._primary.endpoint
        if not found:
            return [f"{host} has no address"]
        primaries = {states[each].run_id or each: each for each in found if each in states and not states[each].replica}
        if len(primaries) > 1:
            names = ", ".join(map(str, primaries.values()))
            return [f"{host} leads to several primaries, {names}: commands go to {server}"]
        if primaries:
            return []
        replicas = [f"{host} leads to {each}, which is a replica" for each in found if each in states]
        return [*replicas, *(f"{each}: {self._links.failures[each]}" for each in found if each in self._links.failures)]


async def _state_of(link: UpstreamConnection, _: Endpoint) -> ServerState:
    replica, info = await asyncio.gather(is_replica(link), link.ask(["INFO", "server"]))
    found = _RUN_ID.search(info)
    return ServerState(replica, None if found is None else found[1])
