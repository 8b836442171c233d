"""What was sent on a tracking connection, and takes the replies to it: the fill of a reply, and whether Redis lives.

A fill asks for the TTL of the key, for those of fields where a hash may have such, and then for the value. The reply
ends when the key does, counted from when its TTL was asked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proxy.commands.error_texts import FILL_ELSEWHERE, FILL_LASTING, FILL_REFUSED
from proxy.hotpath.cache.cached_reply import CachedKey, ReplyMemory, ReplySource
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.local_cache.frames import OutOfStepError
from proxy.wire.decode import read_reply
from proxy.wire.encode import encode_command

_PONG = b"+PONG\r\n"
_MISSING = -2
_FOR_EVER = -1
_SMALL = 1024
_LARGE = 1 << 20
"""Bytes of the reply to HPTTL, and to CLUSTER NODES."""
_NOT_KEPT_FOR = 60.0
"""Seconds for which it is known, unless the key changes, that a reply is too large to keep, is an error that lasts, or
is about a missing key with a cluster upstream."""

Word = Callable[[bytes, bytes], bool]
"""Gets what a node of a cluster says of itself, in its replies to CLUSTER INFO and CLUSTER NODES; whether it counts."""


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


class Expected(ABC):
    """What was sent, and when. It takes its replies in turn."""

    def __init__(self, sent: float) -> None:
        self.sent = sent

    def wanted(self) -> int:
        """How large its next reply may be, in bytes. Of a larger one, only the size is of interest."""
        return _SMALL

    @abstractmethod
    def take(self, frame: bytes | None) -> bool:
        """The next reply, or None for a larger one than was wanted. Whether it was the last."""


class Ping(Expected):
    """A PING; ``answered`` are called with the time of its reply."""

    def __init__(self, sent: float) -> None:
        super().__init__(sent)
        self.answered: list[Callable[[float], object]] = []
        self.counts = True

    def request(self) -> bytes:
        """What is sent."""
        return encode_command([b"PING"])

    def take(self, frame: bytes | None) -> bool:
        _refuse_error(frame)
        if frame != _PONG:
            raise OutOfStepError(f"PING was answered {frame!r}")
        return True


class WordOfNode(Ping):
    """The same with a cluster upstream, where a node that answers PING may have been deposed, or cut off: what it says
    of itself ``counts``, or it does not. From the moment when it is ``doubted``, a new one is needed."""

    def __init__(self, sent: float, word: Word) -> None:
        super().__init__(sent)
        self.doubted = False
        self._word = word
        self._info: bytes | None = None

    def request(self) -> bytes:
        return encode_command([b"CLUSTER", b"INFO"]) + encode_command([b"CLUSTER", b"NODES"])

    def wanted(self) -> int:
        return _LARGE

    def take(self, frame: bytes | None) -> bool:
        _refuse_error(frame)
        if self._info is None:
            self._info = frame or b""
            return False
        self.counts = not self.doubted and self._word(self._info, frame or b"")
        return True


def _refuse_error(frame: bytes | None) -> None:
    if frame is not None and frame.startswith(b"-"):
        raise RefusedPingError(frame[1:-2].decode("utf-8", "replace"))


class Fill(Expected):
    """One fill: PTTL, HPTTL if it is needed, and the value. ``over`` are called when it has ended. ``redirected``: the
    node has sent it elsewhere. Replies about missing keys are kept only where it ``keeps_missing``."""

    def __init__(
        self,
        cache: ReplyCache,
        source: ReplySource,
        key: CachedKey,
        read: CachedRequest,
        bounds: CacheBounds,
        sent: float,
        *,
        keeps_missing: bool,
    ) -> None:
        super().__init__(sent)
        self.key = key
        self.read = read
        self.over: list[Callable[[], None]] = []
        self.redirected = False
        self._cache = cache
        self._source = source
        self._bounds = bounds
        self._writes = key.writes
        self._mark = cache.mark_of(key)
        self._ends = sent + bounds.max_age
        self._lifetimes = [b"PTTL", *([b"HPTTL"] if read.fields else [])]
        self._keeps_missing = keeps_missing
        self._missing = False
        self._untold = False
        self._begun = False
        self._spoilt = False

    def request(self) -> bytes:
        """What is sent."""
        asked = [encode_command([b"PTTL", self.read.key])]
        fields = self.read.fields
        if fields:
            asked.append(encode_command([b"HPTTL", self.read.key, b"FIELDS", b"%d" % len(fields), *fields]))
        return b"".join((*asked, self.read.request))

    def changed(self) -> None:
        """The key has changed. If its TTL was told before, that may be wrong now."""
        self._spoilt = self._spoilt or self._begun

    def give_up(self) -> None:
        """Nothing may be kept of it."""
        self._spoilt = True

    def in_vain(self) -> bool:
        """Whether nothing can be kept of it any more."""
        return self._spoilt or self.key.writes != self._writes or self._cache.mark_of(self.key) != self._mark

    def wanted(self) -> int:
        return _LARGE if self._lifetimes else self._bounds.max_value

    def take(self, frame: bytes | None) -> bool:
        self._begun = True
        if frame is not None and FILL_ELSEWHERE.begin(frame):
            self.redirected = True
            self.give_up()
        if self._lifetimes:
            self._end_with(self._lifetimes.pop(0), frame)
            return False
        if self._missing or (frame is not None and FILL_LASTING.begin(frame)):
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
        if lifetimes == _MISSING and not self._keeps_missing:
            self._missing = True
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
            self._source,
            self._mark,
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


def refuses_command(reply: bytes) -> bool:
    """Whether this error says that Redis runs the command for nobody like Keyrail. That the user may not access a key
    says nothing about others (acl.c, getAclErrorMessage)."""
    return FILL_REFUSED.begin(reply) and b" to access " not in reply
