"""Finds out which server Sentinels take for the primary, and follows it: at the start, and for as long as the route
lives.

    each second    SENTINEL GET-MASTER-ADDR-BY-NAME, SENTINELS and REPLICAS of all Sentinels, and ROLE of the primary
    at once        where a Sentinel publishes something about a failover, or a connection to the primary was lost

The primary is the server that a majority of the Sentinels names, and that says so itself (ROLE). Neither alone is
enough: during a failover two servers call themselves primary for ten seconds, and a Sentinel that is cut off from the
others names an old one. Without both, the last known primary stays, also for a worker that takes another one's place.

Nobody uses another server that calls itself primary: that is told (``other_primaries.py``).

An event alone would come late: the Sentinel that leads a failover names the new primary about a second before it
publishes +switch-master.
"""

import asyncio
from collections.abc import Callable

from proxy.hotpath.upstream.in_flight import CONFIRM, ReplySink
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.config.sentinel_address import Sentinels
from proxy.net.connection.tls import FollowedContext
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.follow.other_primaries import OtherPrimaries
from proxy.net.follow.watch import Looking, Watch
from proxy.net.topology.links import ANSWER_SECONDS, Links
from proxy.net.topology.primary import Primary
from proxy.net.topology.roles import Roles
from proxy.net.topology.sentinel_views import (
    NoMajorityError,
    SentinelGroup,
    SentinelView,
    dissent,
    listed,
    read_sentinel,
    replicas,
)
from proxy.net.topology.topology import Change
from proxy.session.ports.pool_key import PoolKey
from proxy.session.subscription import Subscriptions
from proxy.wire.decode import read_reply
from proxy.wire.encode import encode_command

_MOST_ROUNDS = 3
_EVENTS = (b"+sdown", b"+odown", b"+promoted-slave", b"+switch-master")


class _Events(ReplySink):
    """What a Sentinel publishes; it gets the answer to SUBSCRIBE, too."""

    def __init__(self, heard: Callable[[], None]) -> None:
        super().__init__()
        self.write = lambda _: heard()


class SentinelWatch(Watch):
    """Asks the Sentinels of one primary. ``adopted`` hears of each change.

    What is wrong is logged as of the route ``log_as``, if that is not empty.
    """

    def __init__(
        self,
        primary: Primary,
        sentinels: Sentinels,
        loop: asyncio.AbstractEventLoop,
        connect_seconds: float,
        adopted: Callable[[Change], None],
        count: Callable[[str], None],
        log_as: str = "",
    ) -> None:
        self._primary = primary
        self._sentinels = sentinels
        self._connect_seconds = connect_seconds
        self._adopted = adopted
        login = primary.login
        well = "all Sentinels agree"
        looking = Looking(str(login), loop, primary.doubted, count, log_as=log_as, well=well)
        key = PoolKey(None, 0, 3, primary.home)
        super().__init__(
            loop, looking, Links(login.at_sentinel, key, loop, connect_seconds, primary.doubt, count, self._subscribe)
        )
        key = key._replace(protocol=2)
        self._roles = Roles(login, key, loop, connect_seconds, primary.doubt, count)
        self._others = OtherPrimaries(login, key, loop, connect_seconds, primary.doubt, count)
        self._group = SentinelGroup(sentinels.endpoints, login.reach)
        self._found: set[Endpoint] = set()
        self._is_missing = False

    @property
    def settled(self) -> bool:
        """Whether a primary is known. It stays when Sentinels fail."""
        return self._primary.endpoint is not None

    def begin(self, tls: FollowedContext | None) -> None:
        """Begin to look."""
        self._roles.begin(tls)
        self._others.begin(tls)
        super().begin(tls)

    def close(self) -> None:
        """End it."""
        super().close()
        self._roles.close()
        self._others.close()

    def _subscribe(self, link: UpstreamConnection) -> None:
        # In RESP3 the messages come between replies, on the same connection.
        events = link.pipeline.owner = _Events(self._heard)
        link.pipeline.follow(Subscriptions(3))
        if link.pipeline.offer_commands(events, encode_command([b"SUBSCRIBE", *_EVENTS])):
            link.pipeline.enqueue(events, len(_EVENTS), CONFIRM, (b"subscribe", None))

    def _heard(self) -> None:
        self._looking.changed()
        self._primary.doubt()

    async def _has_news(self) -> bool:
        return True

    # A look at all

    async def _look(self) -> None:
        views = await self._ask_sentinels()
        reasons = {f"Sentinel {each}: {reason}" for each, reason in self._links.failures.items()}
        try:
            named = self._group.agree(views, self._sentinels.name)
        except NoMajorityError as error:
            await self._go_on_with_last_known()
            self._looking.report({"; ".join([str(error), *sorted(reasons)])})
            return
        refusal = await self._refusal(self._primary.login.reach(named))
        if not refusal:
            self._adopt(self._primary.login.reach(named))
        self._is_missing = bool(refusal)
        refused = {f"primary {named}: {refusal}"} if refusal else set()
        # The health of the primary in use is told with its other figures.
        in_use = self._primary.login.reach(named) == self._primary.endpoint
        known = replicas(views.values())
        self._primary.replicas = [self._primary.login.reach(each) for each in sorted(known)]
        others = self._others.look(known, named)
        problems = reasons | dissent(views, named) | refused | (others if in_use and not refused else set())
        self._looking.report(problems, refused if in_use else ())

    async def _go_on_with_last_known(self) -> None:
        """Where nobody names a primary, the one that other workers use is this worker's, too, if it says that it is
        one."""
        if self._primary.endpoint is None:
            for server, _ in self._primary.last_known:
                if not await self._refusal(server):
                    self._adopt(server)

    async def _ask_sentinels(self) -> dict[Endpoint, SentinelView]:
        named, views = self._sentinels.endpoints, dict[Endpoint, SentinelView]()
        tried, targets = set[Endpoint](), {*named, *self._found, *self._group.members.values()}
        for _ in range(_MOST_ROUNDS):
            views |= await self._links.ask_all(targets - tried, self._ask, self._first_seconds())
            tried |= targets
            there = {view.by for view in views.values()}
            missing = {name: at for name, at in listed(views.values()).items() if name not in there}
            targets = {self._primary.login.reach(at) for at in missing.values()}
            if targets <= tried:
                break
        views = self._group.counting(views)
        if views:
            self._found = {*views, *targets} - {*named}
            self._links.forget_all_but({*named, *self._found, *self._group.members.values()})
        return views

    def _first_seconds(self) -> float:
        return min(self._connect_seconds, ANSWER_SECONDS) if self._group.members else self._connect_seconds

    async def _ask(self, link: UpstreamConnection, target: Endpoint) -> SentinelView:
        name = self._sentinels.name
        frames = await asyncio.gather(
            link.ask(["SENTINEL", "MYID"]),
            link.ask(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]),
            link.ask(["SENTINEL", "SENTINELS", name]),
            link.ask(["SENTINEL", "REPLICAS", name]),
        )
        return read_sentinel(str(target), *map(read_reply, frames))

    async def _refusal(self, server: Endpoint) -> str:
        """Why this server cannot be the primary; empty if it says that it is.

        For the one in use that is what it said last: while it hangs, nobody waits for it, and another one can be named.
        """
        known = self._roles.refusals.get(server)
        if server == self._primary.endpoint and known is not None:
            self._roles.ask_again([server])
            return known
        await self._roles.ask([server], self._connect_seconds if self._primary.endpoint is None else ANSWER_SECONDS)
        return self._roles.refusals[server]

    def _adopt(self, server: Endpoint) -> None:
        before = self._primary.endpoint
        change = self._primary.adopt(server)
        if change.new:
            if before is not None:
                self._others.replaced(before)
            self._looking.changed()
        change.back = self._is_missing and not change.new
        if change.new or change.back:
            self._adopted(change)


async def find_primary(
    upstream: UpstreamAddress, sentinels: Sentinels, tls: FollowedContext | None, seconds: float
) -> tuple[UpstreamAddress, str]:
    """The primary that the Sentinels name now, and what is not as it should be. Raises ConnectionRefusedError."""
    primary = Primary(upstream)
    loop = asyncio.get_running_loop()
    watch = SentinelWatch(primary, sentinels, loop, seconds, lambda _: None, lambda _: None)
    watch.begin(tls)
    try:
        await watch.attempted.wait()
    finally:
        watch.close()
    if primary.endpoint is None:
        raise ConnectionRefusedError(watch.problem)
    return upstream.at(primary.endpoint), watch.problem
