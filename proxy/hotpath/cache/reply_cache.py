# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Replies to reads, kept by the bytes of their requests until their key changes.

A reply is found by the whole request, byte for byte, so the hot path needs no key and no arguments of it. All replies
of one key are dropped together: by an invalidation of Redis, and by each write of a client of this worker when it is
forwarded. While such a write can still run, its key is *held*: no reply of the key is found, and none is kept. So a
client that has the reply to its write never finds the value from before.

A command whose keys are unknown holds back everything: nothing is found, and nothing is dropped, as Redis tells by
invalidations which keys it has changed. ``release`` ends that, when they have come. One that only reads tells its own
client alone what may be newer: until the invalidations behind its reply have come, this client is ``looking``, and
everybody else is answered.

With a cluster upstream, the replies of all nodes are here, each with its source. A key is held whichever node its
command goes to, so it stays held when the command is sent on to another one. Replies are found only of ``slots`` that
are open.

Times are seconds of a clock that never goes back.
"""

from collections.abc import Iterable

from proxy.commands.slots import slot_of
from proxy.hotpath.cache.cached_reply import FEW_HOLDERS, CachedKey, CachedReply, ReplyMemory, ReplySource
from proxy.hotpath.cache.slot_marks import CLOSED, SlotMarks
from proxy.hotpath.plan.automaton import Automaton
from proxy.hotpath.upstream.in_flight import ReplySink

_HINTS = 256  # as the mask in ``_hint`` is
_INTERPRETED = __file__.endswith((".py", ".pyc"))
_SWEEP = 1024
"""Keys that are remembered before the first look for those that need not be."""


class ReplyCache:
    """The replies of one database, of one server or of all nodes of a cluster (which has ``slots``).

    It concerns keys that are ``hot``, and those that the automaton ``uncached`` does not own. All other keys are left
    alone; while there can be no other, it is ``idle``.

    While ``held_back``, nothing is found; ``held_back_by`` counts the commands that have held it back. ``evicted``
    counts replies that left for lack of room.
    """

    __slots__ = (
        "_forget",
        "_hints",
        "_keys",
        "_last",
        "_replies",
        "_sweep_at",
        "_touched",
        "_waiting",
        "evicted",
        "held_back",
        "held_back_by",
        "hot",
        "idle",
        "looking",
        "slots",
        "uncached",
    )

    def __init__(self, slots: SlotMarks | None = None) -> None:
        self.slots = slots
        self.idle = True
        self.hot: set[bytes] = set()
        self._hints = bytearray(_HINTS)
        self.uncached: Automaton | None = None
        self.held_back = False
        self.held_back_by = 0
        self.looking: dict[ReplySink, int] = {}
        self.evicted = 0
        self._replies: dict[bytes, CachedReply] = {}
        self._last: CachedReply | None = None
        self._keys: dict[bytes, CachedKey] = {}
        self._touched: list[CachedKey] = []
        self._waiting: dict[ReplySink, int] = {}
        self._forget = False
        self._sweep_at = _SWEEP

    def __len__(self) -> int:
        """How many replies there are."""
        return len(self._replies)

    def find(self, request: bytes, now: float) -> CachedReply | None:
        """The reply to this request, if it may be sent now."""
        return self.find_in(request, 0, len(request), now)

    def find_in(self, data: bytes, start: int, end: int, now: float) -> CachedReply | None:
        """The reply to the request between the offsets, if it may be sent now."""
        # A hot key is read again and again: to compare its request costs less than to look it up.
        reply = self._last
        if reply is None or not _is_between(reply.request, data, start, end):
            reply = self._replies.get(data[start:end])
            if reply is None:
                return None
            self._last = reply
        if self.held_back or now >= reply.source.until:
            return None
        if now >= reply.ends or (self.slots is not None and self.slots.of(reply.key.slot) != reply.mark):
            self._remove(reply)
            return None
        reply.memory.use(reply)
        key = reply.key
        if not key.touched and reply.resp3 is not None:
            key.touched = True
            self._touched.append(key)
        return reply

    def has(self, data: bytes, start: int, end: int) -> bool:
        """Whether there is a reply to the request between the offsets, whatever it is worth."""
        if self._last is not None and _is_between(self._last.request, data, start, end):
            return True
        return data[start:end] in self._replies

    def may_concern(self, data: bytes, start: int, end: int) -> bool:
        """The same as ``concerns`` for most keys that it does not concern, at a tenth of the cost; otherwise True."""
        return self.uncached is not None or self._hints[_hint(data, start, end)] != 0

    def concerns(self, data: bytes, start: int, end: int) -> bool:
        """Whether the key between the offsets may have replies here."""
        if self.uncached is not None and self.uncached.find(data, start, end) < 0:
            return True
        return bool(self.hot) and data[start:end] in self.hot

    def concern(self, uncached: Automaton | None) -> None:
        """From now on it concerns the keys that this automaton does not own, and no hot ones; it is empty."""
        for name in list(self._keys):
            self._expire(name)
        self.uncached = uncached
        self._heat(set())

    def become_hot(self, names: Iterable[bytes], writers: Iterable[ReplySink]) -> None:
        """These keys are hot now, and no others. ``writers`` are all clients: what they have sent already may be about
        keys that were not hot, and so were not held."""
        hot = set(names)
        for name in hot - self.hot:
            for writer in writers:
                if not writer.finished(writer.requested):
                    self.hold(name, writer, writer.requested)
        for name in self.hot - hot:
            self._expire(name)
        self._heat(hot)

    def _heat(self, hot: set[bytes]) -> None:
        self.hot = hot
        self.idle = self.uncached is None and not hot
        self._hints = bytearray(_HINTS)
        for name in hot:
            self._hints[_hint(name, 0, len(name))] = 1

    def holders(self, name: bytes) -> list[ReplySink]:
        """The clients whose commands hold this key now."""
        key = self._keys.get(name)
        return [] if key is None or not self._held(key) else list(key.holds)

    def take_touched(self) -> dict[bytes, int]:
        """The keys of which a reply was found since the last call, and how many replies were sent. Redis does not know
        that they were used."""
        touched: dict[bytes, int] = {}
        for key in self._touched:
            # A key that was forgotten and has come again is here twice.
            touched[key.name] = touched.get(key.name, 0) + key.hits
            key.hits = 0
            key.touched = False
        self._touched.clear()
        return touched

    # Filling

    def begin_fill(self, name: bytes) -> CachedKey | None:
        """The key, which a fill will ask for; None while a client's write of it may still run, or its slot is
        closed."""
        key = self._key(name)
        if self._held(key):
            return None
        if self.slots is not None:
            key.slot = slot_of(name)
            if self.slots.of(key.slot) == CLOSED:
                self._forget_unused(key)
                return None
        key.fills += 1
        return key

    def mark_of(self, key: CachedKey) -> int:
        """The mark of its slot at this moment, with which a reply is kept whose fill begins."""
        return 0 if self.slots is None else self.slots.of(key.slot)

    def end_fill(self, key: CachedKey) -> None:
        """The fill that ``begin_fill`` began is over, and has kept what it keeps."""
        key.fills -= 1
        self._forget_unused(key)

    def keep(
        self,
        source: ReplySource,
        mark: int,
        memory: ReplyMemory,
        key: CachedKey,
        request: bytes,
        resp3: bytes | None,
        resp2: bytes | None,
        since: float,
        ends: float,
        served: int,
        audited: int,
    ) -> None:
        """Keep a reply. The fill must have begun after all writes of the key (``CachedKey.writes``) were over, when its
        slot had this mark."""
        old = self._replies.get(request)
        if old is not None:
            self._remove(old)
        reply = CachedReply(source, mark, memory, key, request, resp3, resp2, since, ends, served, audited)
        if reply.size > memory.limit:
            return
        self._replies[request] = reply
        key.replies[request] = reply
        memory.add(reply)

    # Dropping

    def drop(self, name: bytes) -> None:
        """The key has changed."""
        key = self._keys.get(name)
        if key is not None:
            self._drop(key)

    def _expire(self, name: bytes) -> None:
        # What a fill that is under way brings is not kept either.
        key = self._keys.get(name)
        if key is not None:
            key.writes += 1
            self._drop(key)

    def clear_of(self, source: ReplySource) -> None:
        """Everything may have changed there."""
        for reply in [reply for reply in self._replies.values() if reply.source is source]:
            self._remove(reply)

    def clear(self) -> None:
        """Everything may have changed."""
        for reply in self._replies.values():
            reply.memory.remove(reply)
        self._replies.clear()
        self._last = None
        for key in list(self._keys.values()):
            key.replies.clear()
            self._forget_unused(key)

    def evict(self, reply: CachedReply) -> None:
        """Drop one reply for lack of room."""
        self.evicted += 1
        self._remove(reply)

    # Holding

    def hold(self, name: bytes, writer: ReplySink, position: int) -> None:
        """A client's command that reads or writes the key is forwarded. Which replies are not kept stays known."""
        key = self._key(name)
        key.writes += 1
        key.holds[writer] = position
        # A key that is only written is never looked at by a read, and would keep all clients that have ever written it.
        if len(key.holds) >= key.prune_at:
            self._held(key)
        for reply in list(key.replies.values()):
            if reply.resp3 is not None:
                self._remove(reply)
        if len(self._keys) >= self._sweep_at:
            self._sweep()

    def hold_back(self, writer: ReplySink, position: int, forget: bool = False) -> None:
        """A client's command that may write any key is forwarded. ``forget``: Redis does not tell which it changes."""
        self.held_back = True
        self.held_back_by += 1
        self._waiting[writer] = position
        self._forget = self._forget or forget

    def look(self, reader: ReplySink, position: int) -> None:
        """A client's command is forwarded that may read any key, and writes none."""
        self.looking[reader] = position

    def have_looked(self) -> dict[ReplySink, int]:
        """The clients whose last such command has been answered, and its position."""
        return {reader: at for reader, at in self.looking.items() if reader.finished(at)}

    def end_look(self, reader: ReplySink, position: int) -> None:
        """The invalidations from before the reply to this command have come."""
        if self.looking.get(reader) == position:
            del self.looking[reader]

    def waits_for_writers(self) -> bool:
        """Whether such a command may still run."""
        self._waiting = {writer: at for writer, at in self._waiting.items() if not writer.finished(at)}
        return bool(self._waiting)

    def release(self) -> None:
        """The invalidations of all such commands have come."""
        if self._forget:
            self._forget = False
            self.clear()
        self.held_back = False

    def _sweep(self) -> None:
        for key in list(self._keys.values()):
            if not self._held(key):
                self._forget_unused(key)
        self._sweep_at = max(_SWEEP, 2 * len(self._keys))

    def remembered(self) -> int:
        """How many keys are remembered."""
        return len(self._keys)

    def _key(self, name: bytes) -> CachedKey:
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = CachedKey(name)
        return key

    def _held(self, key: CachedKey) -> bool:
        if key.holds:
            key.holds = {writer: at for writer, at in key.holds.items() if not writer.finished(at)}
            key.prune_at = max(FEW_HOLDERS, 2 * len(key.holds))
        return bool(key.holds)

    def _drop(self, key: CachedKey) -> None:
        for reply in key.replies.values():
            self._take_out(reply)
        key.replies.clear()
        self._forget_unused(key)

    def _remove(self, reply: CachedReply) -> None:
        self._take_out(reply)
        del reply.key.replies[reply.request]
        self._forget_unused(reply.key)

    def _take_out(self, reply: CachedReply) -> None:
        del self._replies[reply.request]
        reply.memory.remove(reply)
        if reply is self._last:
            self._last = None

    def _forget_unused(self, key: CachedKey) -> None:
        if not key.replies and not key.holds and key.fills == 0:
            self._keys.pop(key.name, None)


def _hint(data: bytes, start: int, end: int) -> int:
    # Names of keys differ at their ends.
    last = data[end - 1] if end > start else 0
    before = data[end - 2] if end > start + 1 else 0
    return (end - start + 13 * last + 101 * before) & 255


def _is_between(request: bytes, data: bytes, start: int, end: int) -> bool:
    left = end - start
    if left != len(request):
        return False
    if _INTERPRETED:
        return data[start:end] == request
    # Backwards, as names of keys differ at their ends.
    p = request
    while left > 0:
        left -= 1
        if p[left] != data[start + left]:
            return False
    return True
