"""Follows a DNS name to another primary, as managed services move it in a failover.

A name says nothing when it moves. So it is resolved again where a connection is lost, cannot be opened or is to be
opened (``name_guard.py``), where the server does not answer, and where it turns out to be a replica (an error said
READONLY, and ROLE says so). While something is wrong, it is resolved twice a second.

    one address     is used, also where it leads to a replica: perhaps that is meant
    several         the first one whose server calls itself primary (ROLE); the one in use stays while it is among them
    none            the last known one stays, as long as no other one is known; so it does if nothing resolves the name

If the name leads away from a server that answers, and to no primary, that server stays in use for a while: see
``NameWatch._is_given_up``. A server that has another address now, and the same run_id, is the same one: its connections
stay.
"""

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.engine import is_replica, run_id_in
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.follow.watch import Looking, Watch
from proxy.net.topology.links import ANSWER_SECONDS, Links
from proxy.net.topology.primary import Primary
from proxy.net.topology.topology import Change
from proxy.session.ports.pool_key import PoolKey

_UNSETTLED_SECONDS = 0.5
_IN_TURN_SECONDS = 30.0
"""A resolver may give one of several addresses to each query: so long an address counts that it gave once."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """What a server says of itself; ``run_id`` is None if it does not say."""

    replica: bool
    run_id: bytes | None = None


def chosen(
    found: Sequence[Endpoint],
    states: Mapping[Endpoint, ServerState],
    current: Endpoint | None,
    *,
    given_up: bool = False,
    refusing: Container[Endpoint] = (),
    just_left: Container[Endpoint] = (),
) -> Endpoint | None:
    """The address to use, of those that the name has now; None if the name has none.

    ``states`` has those that answer, and ``refusing`` those that refuse connections with an error of Redis. While the
    ``current`` one answers as primary, those that were ``just_left`` are not used. Where there is no primary, it stays
    unless it is ``given_up``.
    """
    primaries = [each for each in found if _is_primary(each, states)]
    if current in primaries:
        return current
    if current is not None and _is_primary(current, states):
        primaries = [each for each in primaries if each not in just_left]
    if primaries:
        return primaries[0]
    if current is not None and not given_up:
        return current
    for candidates in (
        [each for each in found if each in states],
        [each for each in found if each in refusing],
        found,
    ):
        if candidates:
            return current if current in candidates else candidates[0]
    return current


class NameWatch(Watch):
    """Follows the name in the login of one primary. ``adopted`` hears of each change.

    A server that the name leads away from may be silent for ``failover_wait`` seconds. What is wrong is logged as of
    the route ``log_as``, if that is not empty.
    """

    def __init__(
        self,
        primary: Primary,
        loop: asyncio.AbstractEventLoop,
        connect_seconds: float,
        failover_wait: float,
        adopted: Callable[[Change], None],
        count: Callable[[str], None],
        log_as: str = "",
    ) -> None:
        self._primary = primary
        self._connect_seconds = connect_seconds
        self._failover_wait = failover_wait
        self._adopted = adopted
        looking = Looking(
            str(primary.login),
            loop,
            primary.doubted,
            count,
            log_as=log_as,
            well="the name leads to a primary",
            unsettled_seconds=_UNSETTLED_SECONDS,
        )
        key = PoolKey(None, 0, 2, primary.home)
        super().__init__(loop, looking, Links(primary.at, key, loop, connect_seconds, primary.doubt, count))
        self._has_answered = False
        self._silent_since: float | None = None
        self._seen_at = loop.time()
        self._left_at: dict[Endpoint, float] = {}
        self._is_missing = False

    @property
    def settled(self) -> bool:
        """Whether an address is known."""
        return self._primary.endpoint is not None

    async def _look(self) -> None:
        login, current = self._primary.login, self._primary.endpoint
        try:
            async with asyncio.timeout(self._connect_seconds):
                found = await self._primary.resolve()
        except OSError as error:
            await self._go_on_with_last_known()
            reason = "the resolver does not answer" if isinstance(error, TimeoutError) else error.strerror
            self._looking.report({f"{login.host} cannot be resolved: {reason}"})
            return
        asked = {*found} if current is None else {*found, current}
        seconds = self._connect_seconds if current is None else ANSWER_SECONDS
        states = await self._links.ask_all(asked, _state_of, seconds)
        if current is not None and current not in states and not any(_is_primary(each, states) for each in found):
            # There is nowhere else to go: it is asked each time.
            states |= await self._links.ask_all([current], _state_of, seconds, insist=True)
        for each in states:
            # Another server may answer at a virtual address the next time.
            self._links.drop(each)
        server = self._choose(found, states)
        if server is not None:
            self._adopt(server, states.get(server))
        else:
            await self._go_on_with_last_known()
        problems = {*self._problems(found, states)}
        # The health of the node in use is told with its other figures.
        self._looking.report(problems, {f"{server}: {self._links.failures.get(server)}"} if server else ())
        # Nothing is asked until somebody doubts.
        self._links.forget_all_but(asked if problems else ())

    async def _go_on_with_last_known(self) -> None:
        """Where the name leads nowhere, the server that other workers use is this worker's, too, if it is the same
        process: its address may have gone to another application."""
        if self._primary.endpoint is None and self._primary.last_known:
            known = dict(self._primary.last_known)
            states = await self._links.ask_all({*known}, _state_of, self._connect_seconds)
            for server, state in states.items():
                self._links.drop(server)
                if state.run_id is not None and state.run_id == known[server]:
                    self._adopt(server, state)

    def _choose(self, found: Sequence[Endpoint], states: dict[Endpoint, ServerState]) -> Endpoint | None:
        now, current = self._loop.time(), self._primary.endpoint
        if current in found:
            self._seen_at = now
        elif current is not None and self._is_foreign(states.get(current)):
            del states[current]
            self._has_answered = False
        if current in states:
            self._has_answered, self._silent_since = True, None
        elif self._silent_since is None:
            self._silent_since = now
        self._left_at = {each: at for each, at in self._left_at.items() if now - at < _IN_TURN_SECONDS}
        return chosen(
            found,
            states,
            current,
            given_up=current is not None and self._is_given_up(current, found, states),
            refusing=self._links.failures.keys() - self._links.unreached,
            just_left=self._left_at,
        )

    def _is_foreign(self, state: ServerState | None) -> bool:
        """Whether another server has got the address that the name has left."""
        return state is not None and self._primary.run_id not in (None, state.run_id)

    def _is_given_up(
        self, current: Endpoint, found: Sequence[Endpoint], states: Mapping[Endpoint, ServerState]
    ) -> bool:
        """Whether the name may lead away from this server without leading to a primary."""
        now = self._loop.time()
        if current in found or not self._has_answered:
            return not self._has_answered
        if current in states:
            return states[current].replica and now - self._seen_at >= _IN_TURN_SECONDS
        # In calm times it is not asked: nothing is known of the time before the first look without an answer.
        return self._silent_since is not None and now - self._silent_since >= self._failover_wait

    def _adopt(self, server: Endpoint, state: ServerState | None) -> None:
        run_id, before = None if state is None else state.run_id, self._primary.endpoint
        same = run_id is not None and run_id == self._primary.run_id
        change = self._primary.adopt(server, same=same)
        if state is not None:
            self._primary.run_id, self._primary.is_replica = run_id, state.replica
        if server != before:
            self._seen_at = self._loop.time()
            self._has_answered, self._silent_since = state is not None, None
        if change.new:
            if state is None:
                self._primary.run_id, self._primary.is_replica = None, False
            if before is not None:
                self._left_at[before] = self._loop.time()
            self._looking.changed()
        change.back = self._is_missing and state is not None and not change.new
        self._is_missing = state is None
        if self._is_missing:
            self._looking.changed()  # the name may move at any time: nobody else tells
        if change.new or change.back:
            self._adopted(change)

    def _problems(self, found: Sequence[Endpoint], states: Mapping[Endpoint, ServerState]) -> Sequence[str]:
        host, server = self._primary.login.host, self._primary.endpoint
        if not found:
            return [f"{host} has no address"]
        primaries = sorted((each for each in found if _is_primary(each, states)), key=str)
        if primaries and server not in found:
            names = ", ".join(sorted(map(str, {*primaries, server})))
            return [f"{host} leads to several primaries in turn, {names}: commands go to {server}"]
        known = {states[each].run_id: each for each in reversed(primaries) if states[each].run_id is not None}
        if len(known) > 1:
            names = ", ".join(sorted(map(str, known.values())))
            return [f"{host} leads to several primaries, {names}: commands go to {server}"]
        if primaries:
            return []
        replicas = [f"{host} leads to {each}, which is a replica" for each in found if each in states]
        return [*replicas, *(f"{each}: {self._links.failures[each]}" for each in found if each in self._links.failures)]


def _is_primary(server: Endpoint, states: Mapping[Endpoint, ServerState]) -> bool:
    return server in states and not states[server].replica


async def _state_of(link: UpstreamConnection, _: Endpoint) -> ServerState:
    replica, info = await asyncio.gather(is_replica(link), link.ask(["INFO", "server"]))
    return ServerState(replica, run_id_in(info))
