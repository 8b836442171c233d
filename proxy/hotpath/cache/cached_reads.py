# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""One client and the reply cache of its database: which of its commands are answered from memory, and which keys its
other commands hold.

A read of several keys (MGET) is answered if memory has the reply to a read of each key alone. Together they are what
Redis would answer at one moment: a reply stays only until an invalidation comes, and a newer one comes behind the
invalidations of all that the same write has changed.

Before the first answer in a pass over the client's bytes the cache must be up to date: what Redis has sent on the
tracking connection and nobody has read may be an invalidation (``unread``). Then nothing is answered from memory.
"""

from collections.abc import Callable, Sequence

from proxy.commands.cached_reads import ANY_KEYS as _ANY_KEYS
from proxy.commands.cached_reads import ANY_KEYS_UNTOLD as _ANY_KEYS_UNTOLD
from proxy.commands.cached_reads import CACHED as _CACHED
from proxy.commands.cached_reads import CACHED_PARTS as _CACHED_PARTS
from proxy.commands.cached_reads import NO_KEYS as _NO_KEYS
from proxy.commands.cached_reads import READS as _READS
from proxy.commands.cached_reads import READS_ANY_KEYS as _READS_ANY_KEYS
from proxy.commands.keys import KeyFinder
from proxy.hotpath.cache.cache_outcomes import COUNTED, MISSED, MIXED, NOT_KEPT, UNASKED, UNREAD
from proxy.hotpath.cache.cache_use import CacheUse
from proxy.hotpath.cache.cached_reply import CachedReply
from proxy.hotpath.cache.cached_requests import part_of, prefixed
from proxy.hotpath.cache.queued_keys import QueuedKeys
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.plan.automaton import Automaton
from proxy.hotpath.plan.plan import UNSOUGHT as _UNSOUGHT
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.wire.request import Request

# Under two names each: C integers in here, Python's for everybody else.
_MOST_PARTS = 100
MOST_PARTS = _MOST_PARTS
"""Keys of one read; Redis answers those with more."""
_BEFORE_PART = 4
"""Bytes of the reply to a part, before its only element."""


class CachedReads:
    """A client's use of a cache. ``roles`` has the role of each command (``cache_role``), ``caches`` are those of all
    databases, which commands of unknown keys hold back.

    A client without ``uses`` is answered nothing from memory, and its reads hold no keys; its writes do. ``resp3`` is
    its protocol. Its uses are about hot keys, if ``reads_hot``, and the keys that the automaton ``uncached`` does not
    own. ``outcome`` says why ``answer`` has found nothing, and ``absent`` has the keys that ``answer_parts`` lacks.
    ``hit`` is what ``answer_request`` has answered the whole request from, until somebody takes it.
    ``queued`` has the keys of the client's transaction, while one is open. ``client`` is who asks: while it is
    ``looking`` somewhere, it is answered nothing.

    Memory has keys, and requests, as Redis has them. Those of a tenant's client that were scanned have none of its
    ``prefix`` yet; names and requests that are given as bytes have it. The automaton knows its own names, as rules do.
    """

    __slots__ = (
        "_checked",
        "_clock",
        "_now",
        "_unread",
        "_up_to_date",
        "absent",
        "cache",
        "caches",
        "client",
        "hit",
        "mask",
        "outcome",
        "prefix",
        "queued",
        "reads_hot",
        "resp3",
        "roles",
        "uncached",
        "uses",
    )

    def __init__(
        self,
        cache: ReplyCache,
        caches: Sequence[ReplyCache],
        roles: bytes,
        clock: Callable[[], float],
        unread: Callable[[], bool],
        uses: Sequence[CacheUse] = (),
        uncached: Automaton | None = None,
        reads_hot: bool = True,
        resp3: bool = False,
        client: ReplySink | None = None,
        prefix: bytes = b"",
    ) -> None:
        self.client = client
        self.prefix = prefix
        self.cache = cache
        self.caches = caches
        self.roles = roles
        self.uses = list(uses)
        self.uncached = uncached
        self.reads_hot = reads_hot
        self.resp3 = resp3
        self.mask = 0
        for use in uses:
            self.mask |= use.bit
        self.outcome = MISSED
        self.absent: list[bytes] = []
        self.hit: CachedReply | None = None
        self.queued: QueuedKeys | None = None
        self._clock = clock
        self._unread = unread
        self._now = 0.0
        self._checked = False
        self._up_to_date = False

    def begin_pass(self) -> None:
        """The client has sent more."""
        self._checked = False

    def answer(self, request: bytes) -> bytes | None:
        """The reply to this request, if it can be answered from memory now."""
        payload = self.answer_in(request, 0, len(request))
        self.hit = None
        return payload

    def answer_in(self, data: bytes, start: int, end: int) -> bytes | None:
        """The reply to the request between the offsets, if it can be answered from memory now."""
        self.outcome = MISSED
        if self.mask == 0 or (len(self.cache.looking) != 0 and self.client in self.cache.looking):
            return None
        # What memory lacks is no reason to ask whether it is up to date.
        if (not self._checked and not self.cache.has(data, start, end)) or not self._is_up_to_date():
            return None
        reply = self.cache.find_in(data, start, end, self._now)
        if reply is None:
            return None
        payload = reply.resp3 if self.resp3 else reply.resp2
        if payload is None:
            self.outcome = NOT_KEPT
        elif reply.served & self.mask != 0:
            self.count(reply, 1, len(payload))
            self.hit = reply
            return payload
        elif reply.audited & self.mask != 0:
            for use in self.uses:
                if reply.audited & use.bit != 0:
                    use.audited_hits += 1
                    use.audited_bytes += len(payload)
                    self.outcome = COUNTED
                    break
        return None

    def count(self, reply: CachedReply, times: int, size: int) -> None:
        """This reply of ``size`` bytes is sent so many times."""
        reply.key.hits += times
        for use in self.uses:
            if reply.served & use.bit != 0:
                use.hits += times
                use.hit_bytes += times * size
                use.ages += times * (self._now - reply.since)
                break

    def answer_request(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> bytes | None:
        """The same for a request that was scanned, of any command; reads of several keys are answered from parts."""
        role = self.roles[command_id]
        if role == _CACHED:
            if len(self.prefix) == 0:
                return self.answer_in(data, request.start, request.end)
            self.outcome = MISSED
            if self.mask == 0 or keys.find(command_id, request) != 1:
                return None
            full = prefixed(self.prefix, data, request, keys.indexes[0])
            return self.answer_in(full, 0, len(full))
        if role == _CACHED_PARTS:
            return self._answer_keys(command_id, request, data, keys)
        self.outcome = UNASKED
        return None

    def _answer_keys(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> bytes | None:
        self.outcome = MISSED
        if self.mask == 0 or len(self.cache) == 0:
            return None
        found = keys.find(command_id, request)
        if found > _MOST_PARTS:
            return None
        names = []
        i = 0
        while i < found:
            index = keys.indexes[i]
            names.append(self.prefix + data[request.starts[index] : request.ends[index]])
            i += 1
        return self.answer_parts(names)

    def answer_parts(self, names: list[bytes]) -> bytes | None:
        """The same for the keys of a read of several."""
        self.outcome = MISSED
        self.absent = names
        if len(self.cache.looking) != 0 and self.client in self.cache.looking:
            return None
        if self.mask == 0 or len(names) == 0 or len(names) > _MOST_PARTS or not self._is_up_to_date():
            return None
        self.absent = []
        payloads = [b"*%d\r\n" % len(names)]
        replies = []
        since = self._now
        for name in names:
            reply = self.cache.find(part_of(name), self._now)
            if reply is None or (reply.served | reply.audited) & self.mask == 0:
                self.absent.append(name)
                continue
            payload = reply.resp3 if self.resp3 else reply.resp2
            if payload is None:
                self.outcome = NOT_KEPT
                return None
            payloads.append(payload[_BEFORE_PART:])
            replies.append(reply)
            since = min(since, reply.since)
        if self.absent:
            return None
        payload = b"".join(payloads)
        return payload if self._count_parts(replies, len(payload), since) else None

    def _count_parts(self, replies: list[CachedReply], size: int, since: float) -> bool:
        # One hit of one rule, as old as the oldest part. Whether it may be sent.
        served = audited = lacking = 0
        for reply in replies:
            if reply.served & self.mask != 0:
                served |= reply.served
            else:
                lacking += 1
                audited |= reply.audited
        if lacking != 0:
            self.outcome = COUNTED if lacking == len(replies) else MIXED
        for use in self.uses:
            if lacking == 0 and served & use.bit != 0:
                use.hits += 1
                use.hit_bytes += size
                use.ages += self._now - since
                break
            if lacking != 0 and audited & use.bit != 0:
                use.audited_hits += 1
                use.audited_bytes += size
                break
        if lacking != 0:
            return False
        for reply in replies:
            reply.key.hits += 1
        return True

    def _is_up_to_date(self) -> bool:
        if not self._checked:
            self._checked = True
            self._now = self._clock()
            self._up_to_date = not self._unread()
        if not self._up_to_date:
            self.outcome = UNREAD
        return self._up_to_date

    def may_concern(self, command_id: int, request: Request, data: bytes, keys: KeyFinder, found: int) -> bool:
        """Whether memory may have to do with this command, of which ``keys`` holds as many keys as were ``found``, or
        none (UNSOUGHT); not, for most commands."""
        role = self.roles[command_id]
        if role == _NO_KEYS:
            return False
        if role >= _ANY_KEYS:
            return True
        if found == _UNSOUGHT:
            found = keys.find(command_id, request)
        if found < 0:
            return True
        i = 0
        while i < found:
            index = keys.indexes[i]
            if len(self.prefix) == 0:
                if self.cache.may_concern(data, request.starts[index], request.ends[index]):
                    return True
            else:
                name = self.prefix + data[request.starts[index] : request.ends[index]]
                if self.cache.may_concern(name, 0, len(name)):
                    return True
            i += 1
        return False

    def waits_for_untold(self, command_id: int) -> bool:
        """Whether memory must wait until this command has run, also if its client leaves: Redis does not tell what it
        changes. In a transaction it waits for EXEC."""
        return self.roles[command_id] == _ANY_KEYS_UNTOLD and self.queued is None

    def may_serve(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> bool:
        """Whether rules for this client may be about all keys of this read."""
        if self.mask == 0:
            return False
        found = keys.find(command_id, request)
        if found < 1 or found > (_MOST_PARTS if self.roles[command_id] == _CACHED_PARTS else 1):
            return False
        i = 0
        while i < found:
            index = keys.indexes[i]
            if not self._is_about(data, request.starts[index], request.ends[index]):
                return False
            i += 1
        return True

    def may_serve_any(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> bool:
        """The same for any of the keys of a read."""
        found = keys.find(command_id, request)
        i = 0
        while i < found:
            if self._is_about(data, request.starts[keys.indexes[i]], request.ends[keys.indexes[i]]):
                return True
            i += 1
        return False

    def may_serve_name(self, name: bytes) -> bool:
        """The same for one key."""
        return self.mask != 0 and not self.cache.idle and self._is_about_name(name)

    def _is_about_name(self, name: bytes) -> bool:
        # A script of a tenant may name others' keys.
        return not name.startswith(self.prefix) or self._is_about(name, len(self.prefix), len(name))

    def _is_about(self, data: bytes, start: int, end: int) -> bool:
        if self.uncached is not None and self.uncached.find(data, start, end) < 0:
            return True
        return self.reads_hot and len(self.cache.hot) > 0 and self.prefix + data[start:end] in self.cache.hot

    def hold(self, command_id: int, request: Request, data: bytes, keys: KeyFinder, writer: ReplySink, at: int) -> None:
        """The command is forwarded for ``writer``, at this position: see ``ReplyCache``."""
        role = self.roles[command_id]
        reads = role == _CACHED or role == _CACHED_PARTS or role == _READS or role == _READS_ANY_KEYS
        if role == _NO_KEYS or (reads and self.mask == 0):
            return
        found = -1 if role >= _ANY_KEYS else keys.find(command_id, request)
        if found < 0:
            if reads:
                self.look(writer, at)
            else:
                self.hold_back(writer, at, role == _ANY_KEYS_UNTOLD)
            return
        i = 0
        while i < found:
            index = keys.indexes[i]
            start = request.starts[index]
            end = request.ends[index]
            if len(self.prefix) != 0:
                self.hold_name(self.prefix + data[start:end], writer, at, reads)
            elif self._is_about(data, start, end) if reads else self.cache.concerns(data, start, end):
                self._hold(data[start:end], writer, at)
            i += 1

    def hold_name(self, name: bytes, writer: ReplySink, at: int, reads: bool) -> None:
        """The same for one key of a command that ``reads`` it, or may write it."""
        if self._is_about_name(name) if reads else self.cache.concerns(name, 0, len(name)):
            self._hold(name, writer, at)

    def _hold(self, name: bytes, writer: ReplySink, at: int) -> None:
        if self.queued is None:
            self.cache.hold(name, writer, at)
        else:
            self.queued.add(name)

    def hold_back(self, writer: ReplySink, at: int, forget: bool = False) -> None:
        """The same for a command that may be about any key. The writer tells when it has been answered."""
        if self.queued is not None:
            self.queued.add_any(forget)
            return
        writer.notify_when_idle = True
        for cache in self.caches:
            cache.hold_back(writer, at, forget)

    def look(self, reader: ReplySink, at: int) -> None:
        """The same for a command that may read any key, and writes none: it concerns nobody but its client."""
        if self.queued is not None:
            self.queued.looks = True
            return
        reader.notify_when_idle = True
        for cache in self.caches:
            cache.look(reader, at)

    # Transactions

    def begin_transaction(self) -> None:
        """MULTI has been sent, or is going to be: what is held from now on is collected."""
        self.queued = QueuedKeys()

    def end_transaction(self, writer: ReplySink, at: int) -> bool:
        """What was collected can run up to this position; whether Redis will not tell which keys it changes. Then it
        is to be held back by whoever knows when it has run."""
        queued = self.queued
        self.queued = None
        if queued is None:
            return False
        for name in queued.names:
            self.cache.hold(name, writer, at)
        if queued.any_key and not queued.untold:
            self.hold_back(writer, at)
        elif queued.looks:
            self.look(writer, at)
        return queued.untold
