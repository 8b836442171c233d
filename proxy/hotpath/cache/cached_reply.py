# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What a reply cache holds: replies, where they come from, their keys, and the memory of a rule, which several caches
share.

Of a memory that is full, the replies leave that were used least recently.
"""

from typing import Protocol

from proxy.hotpath.upstream.in_flight import ReplySink

NO_SLOT = -1
_OVERHEAD = 960
"""Bytes that a reply takes beside its own and those of its request: objects, and its places in tables (measured)."""


FEW_HOLDERS = 8
"""Holders of a key among whom nobody looks for those whose commands can no longer run."""


class Evicting(Protocol):
    """The cache of a reply."""

    def evict(self, reply: "CachedReply") -> None:
        """Drop one reply for lack of room."""


class ReplySource:
    """A server whose replies are kept in this ``cache``, as long as a tracking connection to it tells of all changes.
    ``until`` is how far what it has told may be trusted."""

    __slots__ = ("cache", "until")

    def __init__(self, cache: Evicting) -> None:
        self.cache = cache
        self.until = 0.0


class CachedReply:
    """The reply of its ``source`` to one request, in both protocols. Without one (None), it is only known not to be
    kept. With a cluster upstream, it counts as long as the slot of its key has this ``mark`` (``SlotMarks``).

    Redis was asked for it at ``since``, and it may be sent up to ``ends``. ``served`` has the bits of the uses that
    send it, ``audited`` those of the uses that only count it (``CacheUse``). ``newer`` and ``older`` are the replies in
    its ``memory`` that were used after and before it.
    """

    __slots__ = (
        "audited",
        "ends",
        "key",
        "mark",
        "memory",
        "newer",
        "older",
        "request",
        "resp2",
        "resp3",
        "served",
        "since",
        "size",
        "source",
    )

    def __init__(
        self,
        source: ReplySource,
        mark: int,
        memory: "ReplyMemory",
        key: "CachedKey",
        request: bytes,
        resp3: bytes | None,
        resp2: bytes | None,
        since: float,
        ends: float,
        served: int,
        audited: int,
    ) -> None:
        self.source = source
        self.mark = mark
        self.memory = memory
        self.served = served
        self.audited = audited
        self.key = key
        self.request = request
        self.resp3 = resp3
        self.resp2 = resp2
        self.since = since
        self.ends = ends
        self.size = _OVERHEAD + 2 * len(request)
        if resp3 is not None:
            self.size += len(resp3)
        if resp2 is not None and resp2 is not resp3:
            self.size += len(resp2)
        self.newer: CachedReply | None = None
        self.older: CachedReply | None = None


class CachedKey:
    """What is kept of one key. ``holds`` are positions of commands that may write it, by the client that has sent them,
    and ``writes`` counts them; where there are as many as ``prune_at``, some may be over. While ``fills`` are under
    way, the key is not forgotten. ``touched``: a reply of it was found since the last ``take_touched``; ``hits`` counts
    those that were sent. With a cluster upstream, ``slot`` is its own, once a reply was fetched."""

    __slots__ = ("fills", "hits", "holds", "name", "prune_at", "replies", "slot", "touched", "writes")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.replies: dict[bytes, CachedReply] = {}
        self.holds: dict[ReplySink, int] = {}
        self.prune_at = FEW_HOLDERS
        self.writes = 0
        self.fills = 0
        self.hits = 0
        self.touched = False
        self.slot = NO_SLOT


class ReplyMemory:
    """The memory of one rule in a worker: at most ``limit`` bytes; the replies that were used least recently go."""

    __slots__ = ("entries", "limit", "newest", "oldest", "size")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.entries = 0
        self.newest: CachedReply | None = None
        self.oldest: CachedReply | None = None

    def add(self, reply: CachedReply) -> None:
        """Count a new reply in, and make room for it."""
        self.size += reply.size
        self.entries += 1
        self._link(reply)
        while self.size > self.limit and self.oldest is not None:
            self.oldest.source.cache.evict(self.oldest)

    def remove(self, reply: CachedReply) -> None:
        """Count a reply out."""
        self.size -= reply.size
        self.entries -= 1
        self._unlink(reply)

    def use(self, reply: CachedReply) -> None:
        """The reply is the one used last."""
        if reply is not self.newest:
            self._unlink(reply)
            self._link(reply)

    def _link(self, reply: CachedReply) -> None:
        reply.older = self.newest
        reply.newer = None
        if self.newest is None:
            self.oldest = reply
        else:
            self.newest.newer = reply
        self.newest = reply

    def _unlink(self, reply: CachedReply) -> None:
        if reply.newer is None:
            self.newest = reply.older
        else:
            reply.newer.older = reply.older
        if reply.older is None:
            self.oldest = reply.newer
        else:
            reply.older.newer = reply.newer
