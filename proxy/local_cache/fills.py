"""Fills a reply cache over one connection with ``CLIENT TRACKING ON``, and drops what Redis says has changed.

Replies and invalidations come on the same connection, in the order in which Redis ran and changed things:

    sent      PTTL key                value of the key              PING
    comes     (1) what changed before     (2) what changed between      (3) what changed behind

An invalidation at (1) is older than the fill. At (2) the TTL may be wrong: the fill is given up, as reading the value
tracks the key anew, and nothing would ever correct the TTL. At (3) the reply is dropped again.

The reply ends when the key does, counted from when PTTL was sent. Of a hash whose fields can have TTLs, HPTTL is asked
for the fields that the reply depends on.

The cache may be trusted for ``SILENCE`` seconds from when the last answered command was sent: by then Redis had sent
all invalidations from before. Bytes and the time in, bytes out.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.hotpath.cached_reply import CachedKey, ReplyMemory
from proxy.hotpath.reply_cache import ReplyCache
from proxy.wire.decode import read_reply
from proxy.wire.encode import encode_command
from proxy.wire.reply import ReplyScanner

SILENCE = 1.0
"""Seconds without an answer after which the connection counts as lost."""
PING_EVERY = 0.25
"""Seconds."""
MOST_FILLS = 1024
"""Fills under way on one connection."""
_PING = encode_command([b"PING"])
_PONG = b"+PONG\r\n"
_MISSING = -2
_FOR_EVER = -1
_SMALL = 1024
_LIFETIMES = 1 << 20
"""Bytes of the reply to HPTTL."""
_NOT_KEPT_FOR = 60.0
"""Seconds for which it is known, unless the key changes, that a reply is too large to keep, or an error that lasts."""
_LASTING = (b"-WRONGTYPE", b"-NOPERM")
_NEVER = (b"-NOPERM", b"-ERR unknown command")


class OutOfStepError(Exception):
    """Redis answered what cannot be the reply."""


class RefusedPingError(Exception):
    """Redis answered PING with an error (BUSY, LOADING, NOPERM …), which shows nothing about invalidations."""


class RefusedFillError(Exception):
    """Redis does not run for this user what each fill needs: all fills would be in vain. The text says why."""


@dataclass(frozen=True, slots=True)
class CacheBounds:
    """How long a reply is kept at most, in seconds; how large it may be, in bytes; in which memory; and for which uses
    (``CachedReply``)."""

    max_age: float
    max_value: int
    memory: ReplyMemory
    served: int
    audited: int


@dataclass(frozen=True, slots=True)
class CachedRequest:
    """A read: its only ``key``, the bytes of the request, and the hash ``fields`` whose TTLs its reply depends on.

    ``in_resp2`` converts its reply.
    """

    key: bytes
    request: bytes
    fields: Sequence[bytes]
    in_resp2: Callable[[bytes], bytes]


class _Expected(ABC):
    """What was sent, and when. It takes its replies in turn."""

    def __init__(self, sent: float) -> None:
        self.sent = sent

    def wanted(self) -> int:
        """How large its next reply may be, in bytes. Of a larger one, only the size is of interest."""
        return _SMALL

    @abstractmethod
    def take(self, frame: bytes | None) -> bool:
        """The next reply, or None for a larger one than was wanted. Whether it was the last."""


class _Ping(_Expected):
    def __init__(self, sent: float, answered: Callable[[float], None]) -> None:
        super().__init__(sent)
        self.answered = answered

    def take(self, frame: bytes | None) -> bool:
        if frame is not None and frame.startswith(b"-"):
            raise RefusedPingError(frame[1:-2].decode("utf-8", "replace"))
        if frame != _PONG:
            raise OutOfStepError(f"PING was answered {frame!r}")
        return True


class _Fill(_Expected):
    """One fill: PTTL, HPTTL if it is needed, and the value. ``over`` are called when it has ended."""

    def __init__(
        self, cache: ReplyCache, key: CachedKey, read: CachedRequest, bounds: CacheBounds, sent: float
    ) -> None:
        super().__init__(sent)
        self.key = key
        self.read = read
        self.over: list[Callable[[], None]] = []
        self._cache = cache
        self._bounds = bounds
        self._writes = key.writes
        self._ends = sent + bounds.max_age
        self._lifetimes = [b"PTTL", *([b"HPTTL"] if read.fields else [])]
        self._untold = False
        self._begun = False
        self._spoilt = False

    def changed(self) -> None:
        """The key has changed. If its TTL was told before, that may be wrong now."""
        self._spoilt = self._spoilt or self._begun

    def give_up(self) -> None:
        """Nothing may be kept of it."""
        self._spoilt = True

    def in_vain(self) -> bool:
        """Whether nothing can be kept of it any more."""
        return self._spoilt or self.key.writes != self._writes

    def wanted(self) -> int:
        return _LIFETIMES if self._lifetimes else self._bounds.max_value

    def take(self, frame: bytes | None) -> bool:
        self._begun = True
        if self._lifetimes:
            self._end_with(self._lifetimes.pop(0), frame)
            return False
        if frame is not None and frame.startswith(_LASTING):
            frame = None
        if frame is not None and (self._untold or frame.startswith(b"-")):
            self.give_up()
        if not self.in_vain():
            self._keep(frame)
        return True

    def _end_with(self, command: bytes, frame: bytes | None) -> None:
        if frame is not None and refuses_command(frame):
            raise RefusedFillError(f"{command.decode()}: {frame[1:-2].decode('utf-8', 'replace')}")
        lifetimes = None if frame is None else read_reply(frame)
        for lifetime in lifetimes if isinstance(lifetimes, list) else [lifetimes]:
            if not isinstance(lifetime, int):
                self._untold = True
            elif lifetime not in (_MISSING, _FOR_EVER):
                # Redis counts whole milliseconds of a clock that it rounds down.
                self._ends = min(self._ends, self.sent + (lifetime - 1) / 1000)

    def _keep(self, resp3: bytes | None) -> None:
        bounds, ends = self._bounds, self._ends
        resp2 = None
        if resp3 is None:
            ends = self.sent + _NOT_KEPT_FOR
        else:
            resp2 = self.read.in_resp2(resp3)
            resp2 = resp3 if resp2 == resp3 else resp2
        self._cache.keep(
            bounds.memory,
            self.key,
            self.read.request,
            resp3,
            resp2,
            self.sent,
            ends,
            bounds.served,
            bounds.audited,
        )


class Fills:
    """The tracking connection of one cache, without its socket. ``write`` sends bytes on it.

    ``begun`` counts fills, ``in_vain`` those that kept nothing, and ``invalidations`` the keys that Redis has named.
    """

    def __init__(self, cache: ReplyCache, write: Callable[[bytes], object], now: float) -> None:
        self.begun = 0
        self.in_vain = 0
        self.invalidations = 0
        self._cache = cache
        self._write = write
        self._expected: deque[_Expected] = deque()
        self._fills: dict[bytes, list[_Fill]] = {}
        self._under_way = 0
        self._barrier = False
        self._frames = _Frames()
        self._heard = now
        self._over: list[Callable[[], None]] = []
        self._changes: Counter[bytes] = Counter()
        self._ping(now, _nothing)

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
        fill = _Fill(self._cache, key, read, bounds, now)
        fill.over.append(over)
        self._fills.setdefault(read.key, []).append(fill)
        self._expected.append(fill)
        self._under_way += 1
        self.begun += 1
        asked = [encode_command([b"PTTL", read.key])]
        if read.fields:
            asked.append(encode_command([b"HPTTL", read.key, b"FIELDS", b"%d" % len(read.fields), *read.fields]))
        self._write(b"".join((*asked, read.request)))
        return True

    def tick(self, now: float) -> bool:
        """To be called every ``PING_EVERY`` seconds; False if Redis has been silent for too long."""
        if self._expected and now - max(self._expected[0].sent, self._heard) >= SILENCE:
            return False
        self._ping(now, _nothing)
        self.settle(now)
        return True

    def settle(self, now: float) -> None:
        """If commands that may have written any key hold the cache back, and have been answered, wait for their
        invalidations."""
        if self._cache.held_back:
            self._settle(now)

    def when_read(self, act: Callable[[], None]) -> None:
        """Call ``act`` once more has come, and all of it has been read."""
        self._over.append(act)

    def within_push(self) -> bool:
        """Whether a part of an invalidation has come, and not yet its end."""
        return self._frames.within_push()

    def _ping(self, now: float, answered: Callable[[float], None]) -> None:
        self._expected.append(_Ping(now, answered))
        self._write(_PING)

    def _settle(self, now: float) -> None:
        # PING behind the replies to all that may have written any key: its answer comes behind their invalidations.
        if self._barrier or self._cache.waits_for_writers():
            return
        self._barrier = True
        held_back_by = self._cache.held_back_by

        def answered(now: float) -> None:
            self._barrier = False
            if self._cache.held_back_by == held_back_by:
                self._cache.release()
            else:
                self._settle(now)

        self._ping(now, answered)

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
        while (frame := self._frames.next(self._expected[0].wanted() if self._expected else _SMALL)) is not None:
            if frame.startswith(b">"):
                self._push(read_reply(frame))
                continue
            if not self._expected:
                raise OutOfStepError(f"a reply to nothing: {frame[:64]!r}")
            head = self._expected[0]
            if head.take(frame or None):
                self._expected.popleft()
                self._cache.until = max(self._cache.until, head.sent + SILENCE)
                self._ended(head, now)

    def tell(self) -> None:
        """Call what waits until all has been read, or a fill has ended."""
        over, self._over = self._over, []
        for act in over:
            act()

    def _ended(self, head: _Expected, now: float) -> None:
        if isinstance(head, _Ping):
            head.answered(now)
        elif isinstance(head, _Fill):
            self._end(head)

    def _end(self, fill: _Fill) -> None:
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
            self._cache.clear()
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
        self._cache.until = 0.0
        self._cache.clear()
        expected, self._expected = self._expected, deque()
        for each in expected:
            if isinstance(each, _Fill):
                each.give_up()
                self._end(each)


def refuses_command(reply: bytes) -> bool:
    """Whether this error says that Redis runs the command for nobody like Keyrail. That the user may not access a key
    says nothing about others (acl.c, getAclErrorMessage)."""
    return reply.startswith(_NEVER) and b" to access " not in reply


class _Frames:
    """The frames in the bytes of a connection. Of a large reply, the bytes are dropped while they come."""

    def __init__(self) -> None:
        self._scanner = ReplyScanner()
        self._data = b""
        self._position = 0
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        self._data = self._data[self._position :] + data
        self._position = 0

    def within_push(self) -> bool:
        """Whether the frame under way is no reply."""
        begun = self._pieces[0] if self._pieces else self._data[self._position : self._position + 1]
        return begun.startswith(b">")

    def next(self, wanted: int) -> bytes | None:
        """The next whole frame, empty if it is a reply of more bytes than are wanted; None until one has come."""
        data, scanner = self._data, self._scanner
        while self._position < len(data):
            end = scanner.walk(data, self._position, len(data))
            if end < 0:
                raise OutOfStepError("no reply of Redis")
            if end == self._position:
                return None
            self._size += end - self._position
            self._pieces.append(data[self._position : end])
            self._position = end
            if self._size > wanted and not self._pieces[0].startswith(b">"):
                # The first byte tells a push from a reply.
                self._pieces[:] = [self._pieces[0][:1]]
            if scanner.elements == 0:
                frame = b"".join(self._pieces)
                if len(frame) < self._size:
                    frame = b""
                self._pieces.clear()
                self._size = 0
                return frame
        return None


def _nothing(now: float) -> None:
    """A PING that only shows that Redis answers."""
