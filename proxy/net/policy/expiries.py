"""Asks Redis for the TTLs of a few keys of traced commands each second.

The queries use a connection of Keyrail's own, with Keyrail's own login. No client waits for them. They change nothing:
``PTTL`` does not count as a use of the key. Keyrail sends none while Redis is down, while replies take long, or if the
login may not run PTTL.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from proxy.commands.error_texts import PROBE_FORBIDDEN, TTL_ELSEWHERE
from proxy.commands.slots import slot_of
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.ports.ports import Questions
from proxy.traffic.trace import Trace

QueryRedis: TypeAlias = Callable[[PoolKey, Questions, Callable[[Sequence[bytes] | None], None]], None]
Tell: TypeAlias = Callable[[str, bytes, float], None]

MOST_PER_SECOND = 5
BARRED_SECONDS = 60
"""Seconds without queries after Redis has refused PTTL."""

_LONGEST_KEY = 1024
"""What a node says of a slot that is on its way to another one."""


class Expiries:
    """One route's queries, in one worker. ``may_ask`` says whether there is a connection that no client waits for.

    With a cluster upstream, ``owner`` knows the node of a slot.
    """

    def __init__(
        self, ask: QueryRedis, may_ask: Callable[[PoolKey], bool], owner: Callable[[int], Node | None] | None = None
    ) -> None:
        self._ask = ask
        self._may_ask = may_ask
        self._owner = owner
        self._left = MOST_PER_SECOND
        self._open = 0
        self._barred = 0
        self.off: list[str] = []
        """The text for ``features_off`` while the login may not run PTTL."""

    def another_second(self) -> None:
        """Allow new queries. Called each second."""
        self._left = MOST_PER_SECOND - self._open
        self._barred = max(0, self._barred - 1)

    def wonder(self, trace: Trace, key: PoolKey, tell: Tell) -> None:
        """Ask for the TTL of the first key of a command; `key` is the pool of its client.

        If the key exists, ``tell`` gets its pattern, the key, and its TTL in seconds (infinity if it has none).
        """
        if self._left <= 0 or self._barred or not trace.keys or len(trace.keys[0]) > _LONGEST_KEY:
            return
        if not trace.measured or trace.missed or trace.failed:
            return
        own, name = key._replace(user=None), trace.keys[0]
        if self._owner is not None:
            node = self._owner(slot_of(name))
            if node is None:
                return
            own = own._replace(node=node)
        if not self._may_ask(own):
            return
        self._left -= 1
        self._open += 1
        self._ask(own, [[b"PTTL", name]], partial(self._answered, partial(tell, trace.patterns[0], name)))

    def _answered(self, tell: Callable[[float], None], replies: Sequence[bytes] | None) -> None:
        self._open -= 1
        for reply in replies or ():
            if TTL_ELSEWHERE.begin(reply):
                continue
            if reply.startswith(b"-"):
                # Perhaps only this key is forbidden for the login, but the pause is short.
                self._barred = BARRED_SECONDS
                allowed = not PROBE_FORBIDDEN.begin(reply) or b"key" in reply.split(b"'")[0]
                self.off = [] if allowed else ["Keyrail does not know which keys have a TTL (PTTL is not allowed)"]
                continue
            self.off = []
            if reply != b":-2\r\n":
                tell(math.inf if reply == b":-1\r\n" else int(reply[1:]) / 1000)
