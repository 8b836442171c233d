"""Fills a reply cache over one connection with ``CLIENT TRACKING ON``, and drops what Redis says has changed.

Replies and invalidations come on the same connection, in the order in which Redis ran and changed things:

    sent      PTTL key                value of the key              PING
    comes     (1) what changed before     (2) what changed between      (3) what changed behind

An invalidation at (1) is older than the fill. At (2) the TTL may be wrong: the fill is given up, as reading the value
tracks the key anew, and nothing would ever correct the TTL. At (3) the reply is dropped again.

The replies may be trusted for ``SILENCE`` seconds from when the last answered command was sent: by then Redis had sent
all invalidations from before. With a cluster upstream, only what the node says of itself lets them be trusted.

Bytes and the time in, bytes out.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from proxy.hotpath.cache.cached_reply import ReplySource
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.local_cache.expected import (
    CacheBounds,
    CachedRequest,
    Expected,
    Fill,
    Ping,
    RefusedFillError,
    RefusedPingError,
    Word,
    WordOfNode,
)
from proxy.local_cache.frames import Frames, OutOfStepError
from proxy.wire.decode import read_reply

SILENCE = 1.0
"""Seconds without an answer after which the connection counts as lost."""
PING_EVERY = 0.25
"""Seconds."""
MOST_FILLS = 1024
"""Fills under way on one connection."""
_SMALL = 1024


class Fills:
    """The tracking connection to one source of a cache, without its socket. ``write`` sends bytes on it. With a
    cluster upstream, ``word`` gets what the node says of itself.

    ``begun`` counts fills, ``in_vain`` those that kept nothing, and ``invalidations`` the keys that Redis has named.
    """

    def __init__(
        self,
        cache: ReplyCache,
        source: ReplySource,
        write: Callable[[bytes], object],
        now: float,
        word: Word | None = None,
    ) -> None:
        self.begun = 0
        self.in_vain = 0
        self.invalidations = 0
        self._cache = cache
        self._source = source
        self._write = write
        self._word = word
        self._expected: deque[Expected] = deque()
        self._fills: dict[bytes, list[Fill]] = {}
        self._under_way = 0
        self._frames = Frames()
        self._heard = now
        self._over: list[Callable[[], None]] = []
        self._changes: Counter[bytes] = Counter()
        self._asks_again = False
        self.ask(now)

    # What is asked

    def begin(self, read: CachedRequest, bounds: CacheBounds, now: float, over: Callable[[], None]) -> bool:
        """Fill the reply to a read, or join the fill of it that is under way; ``over`` is called when it has ended.

        False if there can be no fill now.
        """
        if self._cache.held_back:
            return False
        for fill in self._fills.get(read.key, ()):
            if fill.read.request == read.request and not fill.in_vain():
                fill.over.append(over)
                return True
        key = self._cache.begin_fill(read.key) if self._under_way < MOST_FILLS else None
        if key is None:
            return False
        fill = Fill(self._cache, self._source, key, read, bounds, now, keeps_missing=self._word is None)
        fill.over.append(over)
        self._fills.setdefault(read.key, []).append(fill)
        self._expected.append(fill)
        self._under_way += 1
        self.begun += 1
        self._write(fill.request())
        return True

    def ask(self, now: float, *answered: Callable[[float], object]) -> None:
        """Ask Redis whether it lives; ``answered`` are called when it has said so, behind all invalidations from
        before."""
        ping = Ping(now) if self._word is None else WordOfNode(now, self._word)
        ping.answered += answered
        self._expected.append(ping)
        self._write(ping.request())

    def tick(self, now: float) -> bool:
        """To be called every ``PING_EVERY`` seconds; False if Redis has been silent for too long."""
        if self._expected and now - max(self._expected[0].sent, self._heard) >= SILENCE:
            return False
        self.ask(now)
        return True

    def doubt(self, now: float) -> None:
        """With a cluster upstream: the node has sent somebody elsewhere. What it has said of itself counts no more: it
        is asked again, and nothing is trusted before it answers."""
        self._source.until = 0.0
        for each in self._expected:
            if isinstance(each, WordOfNode):
                each.doubted = True
        # While it is sending many elsewhere, one question at a time.
        if self._asks_again:
            return
        self._asks_again = True
        self.ask(now, self._asked_again)

    def _asked_again(self, now: float) -> None:
        self._asks_again = False
        asked = (each for each in self._expected if isinstance(each, WordOfNode))
        if self._source.until == 0.0 and all(each.doubted for each in asked):
            self.doubt(now)

    def when_read(self, act: Callable[[], None]) -> None:
        """Call ``act`` once more has come, and all of it has been read."""
        self._over.append(act)

    def within_push(self) -> bool:
        """Whether a part of an invalidation has come, and not yet its end."""
        return self._frames.within_push()

    # What comes

    def receive(self, data: bytes, now: float) -> None:
        """Take bytes of the connection. Raises OutOfStepError, RefusedPingError and RefusedFillError; it is of no use
        then.

        Whoever waits is told behind the last of them, which may be an invalidation.
        """
        self.take_in(data, now)
        self.tell()

    def take_in(self, data: bytes, now: float) -> None:
        """The same, but whoever waits is told by ``tell``, which is to be called soon."""
        self._heard = now
        self._frames.add(data)
        try:
            self._take_frames(now)
        except (OutOfStepError, RefusedPingError, RefusedFillError):
            raise
        except Exception as error:
            # Whatever cannot be read is no reply to what was asked.
            raise OutOfStepError(repr(error)) from error

    def _take_frames(self, now: float) -> None:
        while (frame := self._frames.next(self._expected[0].wanted() if self._expected else _SMALL)) is not None:
            if frame.startswith(b">"):
                self._push(read_reply(frame))
                continue
            if not self._expected:
                raise OutOfStepError(f"a reply to nothing: {frame[:64]!r}")
            head = self._expected[0]
            if head.take(frame or None):
                self._expected.popleft()
                self._ended(head, now)

    def tell(self) -> None:
        """Call what waits until all has been read, or a fill has ended."""
        over, self._over = self._over, []
        for act in over:
            act()

    def _ended(self, head: Expected, now: float) -> None:
        if self._word is None:
            self._trust(head)
        if isinstance(head, Fill):
            self._end(head)
            if head.redirected:
                self.doubt(now)
        elif isinstance(head, WordOfNode) and not head.doubted:
            if head.counts:
                self._trust(head)
            else:
                self._source.until = 0.0
                self._cache.clear_of(self._source)
        if isinstance(head, Ping):
            for act in head.answered:
                act(now)

    def _trust(self, head: Expected) -> None:
        self._source.until = max(self._source.until, head.sent + SILENCE)

    def _end(self, fill: Fill) -> None:
        self._under_way -= 1
        self.in_vain += fill.in_vain()
        fills = self._fills[fill.read.key]
        fills.remove(fill)
        if not fills:
            del self._fills[fill.read.key]
        self._cache.end_fill(fill.key)
        self._over += fill.over

    def _push(self, push: Any) -> None:
        if len(push) != 2 or push[0] != b"invalidate":
            return
        keys: list[bytes] | None = push[1]
        if keys is None:
            self._cache.clear_of(self._source)
            keys = list(self._fills)
        self.invalidations += len(keys)
        self._changes.update(keys)
        for key in keys:
            self._cache.drop(key)
            for fill in self._fills.get(key, ()):
                fill.changed()

    def take_changes(self) -> Counter[bytes]:
        """How often each key has changed since the last call."""
        changes, self._changes = self._changes, Counter()
        return changes

    def lost(self) -> None:
        """The connection is lost: nothing may be trusted any more, and no fill ends well. ``tell`` tells who waits."""
        self._source.until = 0.0
        self._cache.clear_of(self._source)
        expected, self._expected = self._expected, deque()
        for each in expected:
            if isinstance(each, Fill):
                each.give_up()
                self._end(each)
