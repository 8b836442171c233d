"""Probes Redis again when something may have changed: permissions of users, the password, names of connections.

An error reply about an unknown or forbidden command may concern a command that Keyrail sends in place of a client's.
Its text proves nothing, because a script can return the same. So the error alone changes nothing: Keyrail probes the
user again, on a connection that no client uses, at most once a second. It probes the commands that a user lacks every
few seconds.
"""

import asyncio
from collections.abc import Collection
from functools import partial

from proxy.commands.error_texts import WANTS_LOGIN
from proxy.commands.table import Lane
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.policy.capabilities import Capabilities
from proxy.net.policy.policies import Policies
from proxy.net.pool.checkout import Checkout
from proxy.net.pool.connections import Connections
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.session import Session

_ENTRY_SECONDS = 5
"""Seconds between attempts to connect without a password, if no open connection can be used for that."""


class Relearning:
    """One route's, in one worker."""

    def __init__(
        self,
        connections: Connections,
        checkout: Checkout,
        capabilities: Capabilities,
        policies: Policies,
        clients: Collection[Session],
    ) -> None:
        self._connections = connections
        self._checkout = checkout
        self._capabilities = capabilities
        self._policies = policies
        self._clients = clients
        self._seconds = 0
        self._asking = False
        self._learning_home: set[Node] = set()

    # What users may run

    def doubt(self, upstream: UpstreamConnection, line: bytes) -> None:
        """Redis has refused a command. If Keyrail assumed that the user may run it, probe the user again."""
        key, rights = upstream.key, self._capabilities.rights
        if not rights.doubted(key.user, key.node) and rights.contradicts(key.user, line):
            rights.doubt(key.user, key.node)
            self._learn(key)

    def learn_all(self) -> None:
        """The policy needs more commands than before: probe each user again."""
        for key in self._keys():
            self._capabilities.rights.doubt_at_once(key.user, key.node)
            self._learn(key)

    def _keys(self) -> list[PoolKey]:
        pools = self._connections.pools
        return [*map(pools.home_of, self._connections.topology.nodes), *pools.users()]

    def _learn(self, key: PoolKey) -> None:
        if self._connections.all.closing or not self._policies.asks_about(key.user, key.node):
            return
        if key.user is None:
            self._learn_home(key.node)
            return
        upstream = self._connections.all.take_spare(key, anywhere=True)
        if upstream is not None:
            self._checkout.give_back(upstream)
            return
        shared = self._connections.pools.of(key).shared(Lane.FAST)
        if shared is not None:
            shared.drain(partial(self._learn_on, shared))

    def _learn_on(self, drained: UpstreamConnection) -> None:
        upstream = self._connections.all.take_spare(drained.key)
        if upstream is not drained:
            drained.reopen()
        if upstream is not None:
            self._checkout.give_back(upstream)

    def _learn_home(self, node: Node) -> None:
        if node not in self._learning_home and self._connections.supply.alive(node):
            self._learning_home.add(node)
            self._connections.all.start(self._learn_home_anew(node))

    async def _learn_home_anew(self, node: Node) -> None:
        try:
            upstream = await self._connections.supply.open_to_learn(node)
        finally:
            self._learning_home.discard(node)
        if upstream is not None:
            self._checkout.give_back(upstream)

    def another_second(self) -> None:
        """Probe what no error reply reports. Called each second."""
        self._seconds += 1
        for key in self._keys():
            if key.user in self._capabilities.able:
                self._learn(key)
        for user in self._capabilities.rights.unsettled():
            self._connections.all.start(self._policies.settle(user))
        if self._capabilities.needs_password:
            self._ask_for_entry()
        self._forget_names()

    # Whether Redis asks for a password

    def _ask_for_entry(self) -> None:
        # On a connection without a login. If Redis no longer asks for a password, it answers PING there.
        pools = self._connections.pools
        upstream = next((each for each in pools.of(pools.home).connections() if each.unauthenticated), None)
        if upstream is None:
            if self._capabilities.doubts_password() or self._seconds % _ENTRY_SECONDS == 0:
                self._learn_home(pools.placed(pools.home).node)
        elif not self._asking:
            self._asking = True
            upstream.ask(["PING"]).add_done_callback(self._entered)

    def _entered(self, question: "asyncio.Future[bytes]") -> None:
        self._asking = False
        failed = question.cancelled() or question.exception() is not None
        if not failed and not WANTS_LOGIN.begin(question.result()):
            self._learn_home(self._connections.pools.placed(self._connections.pools.home).node)

    # Whose names connections show

    def _forget_names(self) -> None:
        # A connection that no client has keeps a client name only while a client of that name is connected.
        named = [
            upstream
            for pool in self._connections.pools
            for upstream in pool.connections()
            if upstream.pipeline.names.client and upstream.pipeline.owner is None and not upstream.closed
        ]
        if not named:
            return
        present = {client.names.client for client in self._clients}
        for upstream in named:
            if upstream.pipeline.names.client not in present and self._capabilities.keeps_names(upstream.key):
                upstream.forget_names()
