"""Logins that Redis decides, and that are asked about on a connection of nobody's.

    a user of its own      each client brings a connection, as Keyrail keeps no password and cannot open another
    the route's own user   the client shares the route's connections

Clients of the second kind may come thousands of times a second: PHP logs in for every request. So the pairs that Redis
has accepted count for a while. They are forgotten when Redis refuses one, when somebody changes users or passwords
through Keyrail, and when Redis is another process than before. Whatever ends them ends what Redis is being asked about
at that moment, too: nobody knows whether Redis decided before or after it, so such a reply is for the client that asked
and is not remembered. What is not remembered is asked: a password that was changed is refused, and each failure is in
Redis's own log. No password is kept: a pair is known by a keyed hash.

While another server may take the place of a lost one, logins wait as commands do (``failover_wait.py``).
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from hmac import compare_digest

from proxy.net.connection.group_counts import GroupCount
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.downstream.waiting import bring_on
from proxy.net.logins.node_logins import NodeLogins, OneASecond, shown_user
from proxy.net.pool.connections import Connections
from proxy.net.pool.pool import turn_away
from proxy.session.ports.client import ServedClient
from proxy.session.ports.login_port import Credentials, LoginPort, LoginReply
from proxy.session.ports.pool_key import PoolKey, user_named
from proxy.session.ports.pool_waiter import PoolWaiter
from proxy.wire.encode import OK

REMEMBERED_SECONDS = 10.0
_MOST_REMEMBERED = 16
"""Pairs: one user may have several passwords, each with or without its name."""
_MOST_ASKED = 32
"""Logins that are asked about at the same time; others wait."""
_AGAIN = 0.05
"""Seconds to the next attempt to connect, while another server may take the place of a lost one."""

_log = logging.getLogger("keyrail.logins")


class RefusedLogins:
    """Counts and tells of refused logins, in a line a second at most."""

    def __init__(self, outcomes: Counter[str], now: Callable[[], float]) -> None:
        self._outcomes = outcomes
        self._due = OneASecond(now)

    def add(self, client: ServedClient, user: bytes) -> None:
        """A login as this user was refused."""
        self._outcomes["refused"] += 1
        others = self._due.add()
        if others is not None:
            listener, address, _ = client.origin
            _log.warning("login refused: user %s from %s on %s%s", shown_user(user), address, listener, others)


@dataclass(slots=True, eq=False)
class _Ask:
    """Redis is asked about a login of the route's own user. ``refused``: it has refused the same one meanwhile.

    ``waiting`` are other clients with the same login.
    """

    refused: bool = False
    waiting: set[PoolWaiter] = field(default_factory=set)


class Logins(LoginPort):
    """The logins of one route's clients; ``outcomes`` and ``refusals`` count those of all listeners.

    ``give_back`` takes a connection that no client has. ``changes`` are those of users, in the whole process group.
    """

    local = False

    def __init__(
        self, connections: Connections, give_back: Callable[[UpstreamConnection], None], changes: GroupCount
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self.refusals = RefusedLogins(self.outcomes, connections.loop.time)
        self._connections = connections
        self._give_back = give_back
        self._changes = changes
        self._elsewhere = NodeLogins(connections, give_back)
        self._loop = connections.loop
        address = connections.topology.login
        own = None if address.password is None else address.username or "default"
        self._own = None if own is None else own.encode()
        self.anonymous = own is None
        self.own_name = "" if own in (None, "default") else own
        self._key = os.urandom(32)
        self._accepted: dict[bytes, float] = {}
        self._accepted_in = self._epoch()
        self._questions: dict[PoolWaiter, LoginReply | None] = {}
        self._asks: dict[bytes, _Ask] = {}
        self._at_once = asyncio.Semaphore(_MOST_ASKED)

    def is_own(self, login: Credentials) -> bool:
        """Whether it names the user as whom the route itself is logged in."""
        return login.user == self._own

    def check(self, client: ServedClient, login: Credentials) -> LoginReply | None:
        """What becomes of it: known, or what Redis has said by now; None while Redis is asked."""
        if client in self._questions:
            reply = self._questions[client]
            if reply is not None:
                del self._questions[client]
            return reply
        own = self.is_own(login)
        if own and self._remembers(login):
            self.outcomes["remembered"] += 1
            return LoginReply(OK, None, self.own_name)
        pair = self._hash(login)
        if own and pair in self._asks:
            self._asks[pair].waiting.add(client)
            return None
        self._questions[client] = None
        ask = _Ask()
        if own:
            self._asks[pair] = ask
        self._connections.all.start(self._ask(client, login, pair, ask))
        return None

    def accepted(self, client: ServedClient, login: Credentials, key: PoolKey) -> str | None:
        """Redis has accepted it on the client's own connection.

        That is rare and not remembered: the pair may have been refused since the client sent it.
        """
        self.outcomes["accepted"] += 1
        if self.is_own(login):
            return None
        user = user_named(login.user)
        self._elsewhere.begin(_command(login), login, key._replace(user=user))
        return user

    def refused(self, client: ServedClient, login: Credentials) -> None:
        """Redis has refused it: the pair counts no more, neither with the name nor without it."""
        for alone in (False, True):
            pair = self._hash(login._replace(alone=alone))
            self._accepted.pop(pair, None)
            if pair in self._asks:
                self._asks[pair].refused = True
        self.refusals.add(client, login.user)

    def client_closed(self, client: PoolWaiter) -> None:
        """The client has gone: what Redis says of its login is for nobody."""
        self._questions.pop(client, None)

    # What is remembered

    def _epoch(self) -> tuple[bytes, int]:
        # What Redis has said counts until users are changed, or another process answers.
        return self._changes.counts(), self._connections.restarts.met

    def _hash(self, login: Credentials) -> bytes:
        words = b"%d:%d:%b%b" % (login.alone, len(login.user), login.user, login.password)
        return blake2b(words, key=self._key, digest_size=32).digest()

    def _remembers(self, login: Credentials) -> bool:
        self._forget_what_is_over()
        pair, since = self._hash(login), self._loop.time() - REMEMBERED_SECONDS
        found = False
        for known, at in self._accepted.items():
            found |= compare_digest(known, pair) and at > since
        return found

    def _forget_what_is_over(self) -> None:
        if self._accepted_in != (epoch := self._epoch()):
            self._accepted_in = epoch
            self._accepted.clear()

    def _remember(self, login: Credentials, asked_at: float) -> None:
        self._forget_what_is_over()
        for known in _forms_of(login):
            pair = self._hash(known)
            self._accepted.pop(pair, None)
            self._accepted[pair] = asked_at
        while len(self._accepted) > _MOST_REMEMBERED:
            del self._accepted[next(iter(self._accepted))]

    # Asking

    async def _ask(self, client: ServedClient, login: Credentials, pair: bytes, ask: _Ask) -> None:
        upstream: UpstreamConnection | None = None
        frame, refusal, epoch, asked_at = b"", "", self._epoch(), 0.0
        failover = self._connections.supply.failover
        until = failover.until()
        try:
            while upstream is None and not all(waiter.gone for waiter in (client, *ask.waiting)):
                await failover.await_server(until)
                async with self._at_once:
                    epoch = self._epoch()
                    upstream = await self._open(until)
                    if upstream is not None:
                        asked_at = self._loop.time()
                        async with asyncio.timeout(self._connections.settings.connect_timeout):
                            frame = await upstream.ask(_command(login))
                if upstream is None:
                    await asyncio.sleep(_AGAIN)
        except OSError:
            refusal = upstream.farewell if upstream is not None else ""
        finally:
            self._asks.pop(pair, None)
            if not frame and upstream is not None:
                upstream.abort()
        if not frame:
            self._questions.pop(client, None)
            for waiter in (client, *ask.waiting):
                if not waiter.gone:
                    turn_away(waiter, refusal)
            return
        assert upstream is not None
        if frame.startswith(b"+"):
            self.outcomes["accepted"] += 1
            if self.is_own(login) and not ask.refused and epoch == self._epoch():
                self._remember(login, asked_at)
        else:
            self.refused(client, login)
        self._settle(client, login, frame, upstream)
        self._loop.call_soon(partial(bring_on, self._loop, ask.waiting))

    async def _open(self, until: float) -> UpstreamConnection | None:
        # None if there is time for another attempt: the loss of the server may not have shown yet. Raises OSError.
        try:
            return await self._connections.opening.open_for_login()
        except OSError:
            if self._loop.time() >= until:
                raise
        return None

    def _settle(self, client: ServedClient, login: Credentials, frame: bytes, upstream: UpstreamConnection) -> None:
        user = None if self.is_own(login) else user_named(login.user)
        there = client in self._questions
        if there:
            self._questions[client] = LoginReply(frame, user, self.own_name if user is None else "")
        if there and user is not None and frame.startswith(b"+"):
            # The user's pool gets it before the client, which waits there for what this user may run.
            upstream.key = upstream.key._replace(user=user)
            upstream.apart = False
            self._elsewhere.begin(_command(login), login, upstream.key)
            self._give_back(upstream)
        else:
            upstream.close()
        if there:
            client.arrived()


def _forms_of(login: Credentials) -> Iterator[Credentials]:
    # A password that was accepted alone is accepted with the name, too. The other way round it is not so: a default
    # user without a password takes any, but only with its name.
    yield login
    if login.alone:
        yield login._replace(alone=False)


def _command(login: Credentials) -> list[bytes]:
    return [b"AUTH", login.password] if login.alone else [b"AUTH", login.user, login.password]
