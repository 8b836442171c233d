# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""One client and the reply cache of its database: which of its commands are answered from memory, and which keys its
other commands hold.

Before the first answer in a pass over the client's bytes the cache must be up to date: what Redis has sent on the
tracking connection and nobody has read may be an invalidation (``unread``). Then nothing is answered from memory.
"""

from collections.abc import Callable, Sequence

from proxy.commands.cached_reads import ANY_KEYS as _ANY_KEYS
from proxy.commands.cached_reads import ANY_KEYS_UNTOLD as _ANY_KEYS_UNTOLD
from proxy.commands.cached_reads import CACHED as _CACHED
from proxy.commands.cached_reads import NO_KEYS as _NO_KEYS
from proxy.commands.cached_reads import READS as _READS
from proxy.commands.cached_reads import READS_ANY_KEYS as _READS_ANY_KEYS
from proxy.commands.keys import KeyFinder
from proxy.hotpath.automaton import Automaton
from proxy.hotpath.in_flight import ReplySink
from proxy.hotpath.reply_cache import ReplyCache
from proxy.wire.request import Request

# Why there is no answer. Under two names each: C integers in here, Python's for everybody else.
_MISSED = 0
_COUNTED = 1
_TOO_LARGE = 2
_UNREAD = 3
MISSED = _MISSED
"""Nothing is in memory that this client may be sent."""
COUNTED = _COUNTED
"""It is in memory, and rules that only audit would have sent it."""
TOO_LARGE = _TOO_LARGE
"""The reply is known to be too large to keep."""
UNREAD = _UNREAD
"""Redis has sent something that may be an invalidation."""


class CacheUse:
    """A rule of the policy in force for some clients; ``bit`` stands for it in replies. ``hits`` and ``hit_bytes``
    count what was sent from memory, ``audited_hits`` and ``audited_bytes`` what would have been. ``ages`` adds up the
    ages of what was sent, in seconds."""

    __slots__ = ("ages", "audited_bytes", "audited_hits", "bit", "hit_bytes", "hits")

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.hits = 0
        self.hit_bytes = 0
        self.ages = 0.0
        self.audited_hits = 0
        self.audited_bytes = 0


class CachedReads:
    """A client's use of a cache. ``roles`` has the role of each command (``cache_role``), ``caches`` are those of all
    databases, which commands of unknown keys hold back.

    A client without ``uses`` is answered nothing from memory, and its reads hold no keys; its writes do. ``resp3`` is
    its protocol. Its uses are about hot keys, if ``reads_hot``, and the keys that the automaton ``uncached`` does not
    own. ``outcome`` says why ``answer`` has found nothing.
    """

    __slots__ = (
        "_checked",
        "_clock",
        "_now",
        "_unread",
        "_up_to_date",
        "cache",
        "caches",
        "mask",
        "outcome",
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
    ) -> None:
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
        self.outcome = _MISSED
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
        self.outcome = _MISSED
        if self.mask == 0 or len(self.cache) == 0:
            return None
        if not self._checked:
            self._checked = True
            self._now = self._clock()
            self._up_to_date = not self._unread()
        if not self._up_to_date:
            self.outcome = _UNREAD
            return None
        reply = self.cache.find(request, self._now)
        if reply is None:
            return None
        payload = reply.resp3 if self.resp3 else reply.resp2
        if payload is None:
            self.outcome = _TOO_LARGE
        elif reply.served & self.mask != 0:
            for use in self.uses:
                if reply.served & use.bit != 0:
                    use.hits += 1
                    use.hit_bytes += len(payload)
                    use.ages += self._now - reply.since
                    reply.key.hits += 1
                    return payload
        elif reply.audited & self.mask != 0:
            for use in self.uses:
                if reply.audited & use.bit != 0:
                    use.audited_hits += 1
                    use.audited_bytes += len(payload)
                    self.outcome = _COUNTED
                    break
        return None

    def may_serve(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> bool:
        """Whether a rule for this client may be about the key of this read."""
        if self.mask == 0 or keys.find(command_id, request) != 1:
            return False
        index = keys.indexes[0]
        return self._is_about(data, request.starts[index], request.ends[index])

    def _is_about(self, data: bytes, start: int, end: int) -> bool:
        if self.uncached is not None and self.uncached.find(data, start, end) < 0:
            return True
        return self.reads_hot and len(self.cache.hot) > 0 and data[start:end] in self.cache.hot

    def hold(self, command_id: int, request: Request, data: bytes, keys: KeyFinder, writer: ReplySink, at: int) -> None:
        """The command is forwarded for ``writer``, at this position: see ``ReplyCache``."""
        role = self.roles[command_id]
        reads = role == _CACHED or role == _READS or role == _READS_ANY_KEYS
        if role == _NO_KEYS or (reads and self.mask == 0):
            return
        found = -1 if role >= _ANY_KEYS else keys.find(command_id, request)
        if found < 0:
            self.hold_back(writer, at, role == _ANY_KEYS_UNTOLD)
            return
        cache = self.cache
        i = 0
        while i < found:
            index = keys.indexes[i]
            start = request.starts[index]
            end = request.ends[index]
            if self._is_about(data, start, end) if reads else cache.concerns(data, start, end):
                cache.hold(data[start:end], writer, at)
            i += 1

    def hold_name(self, name: bytes, writer: ReplySink, at: int, reads: bool) -> None:
        """The same for one key of a command that ``reads`` it, or may write it."""
        if self._is_about(name, 0, len(name)) if reads else self.cache.concerns(name, 0, len(name)):
            self.cache.hold(name, writer, at)

    def hold_back(self, writer: ReplySink, at: int, forget: bool = False) -> None:
        """The same for a command that may be about any key. The writer tells when it has been answered."""
        writer.notify_when_idle = True
        for cache in self.caches:
            cache.hold_back(writer, at, forget)
