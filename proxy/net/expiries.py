"""Which keys expire, and when: of the keys of traced commands, a few are asked about each second.

The questions go over a connection of Keyrail's own, with Keyrail's own login, so no client waits for them and nothing
comes between a client's commands. They change nothing: ``PTTL`` does not count as a use of the key. None is asked
while Redis is away, and none where an answer takes long or the login may not ask.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from proxy.session.ports import PoolKey, Questions
from proxy.traffic.trace import Trace

QueryRedis: TypeAlias = Callable[[PoolKey, Questions, Callable[[Sequence[bytes] | None], None]], None]
Tell: TypeAlias = Callable[[str, bytes, float], None]

MOST_PER_SECOND = 5
BARRED_SECONDS = 60
"""After Redis has said that this login may not ask."""

_LONGEST_KEY = 1024


class Expiries:
    """One route's, in one worker. ``may_ask`` says whether a connection is to be had that nobody waits for."""

    def __init__(self, ask: QueryRedis, may_ask: Callable[[PoolKey], bool]) -> None:
        self._ask = ask
        self._may_ask = may_ask
        self._left = MOST_PER_SECOND
        self._open = 0
        self._barred = 0
        self.off: list[str] = []
        """The text for ``features_off`` while the login may not run PTTL."""

    def another_second(self) -> None:
        """A second is over."""
        self._left = MOST_PER_SECOND - self._open
        self._barred = max(0, self._barred - 1)

    def wonder(self, trace: Trace, key: PoolKey, tell: Tell) -> None:
        """Ask about the first key of a command; `key` is the pool of its client.

        ``tell`` gets the pattern of a key that exists, the key, and its TTL in seconds: infinity where it has none.
        """
        if self._left <= 0 or self._barred or not trace.keys or len(trace.keys[0]) > _LONGEST_KEY:
            return
        if not trace.measured or trace.missed or trace.failed:
            return
        own = key._replace(user=None)
        if not self._may_ask(own):
            return
        self._left -= 1
        self._open += 1
        name = trace.keys[0]
        self._ask(own, [[b"PTTL", name]], partial(self._answered, partial(tell, trace.patterns[0], name)))

    def _answered(self, tell: Callable[[float], None], replies: Sequence[bytes] | None) -> None:
        self._open -= 1
        for reply in replies or ():
            if reply.startswith(b"-"):
                # It may be this key alone that is not for this login, but a minute is soon over.
                self._barred = BARRED_SECONDS
                allowed = not reply.startswith(b"-NOPERM") or b"key" in reply.split(b"'")[0]
                self.off = [] if allowed else ["Keyrail does not know which keys have a TTL (PTTL is not allowed)"]
                continue
            self.off = []
            if reply != b":-2\r\n":
                tell(math.inf if reply == b":-1\r\n" else int(reply[1:]) / 1000)
