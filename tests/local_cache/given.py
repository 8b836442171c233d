"""What replies are kept within, and reads that are answered from memory."""

from __future__ import annotations

from proxy.hotpath.cache.cached_reply import ReplyMemory, ReplySource
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.local_cache.expected import CacheBounds, CachedRequest
from proxy.wire.encode import encode_command

BOUNDS = CacheBounds(max_age=2.0, max_value=100, memory=ReplyMemory(1 << 20), served=1, audited=0)


def trusted(cache: ReplyCache, until: float = 100.0) -> ReplySource:
    """A source that has answered a moment ago."""
    source = ReplySource(cache)
    source.until = until
    return source


def get(key: bytes) -> CachedRequest:
    """GET of this key."""
    return CachedRequest(key, encode_command([b"GET", key]), (), lambda frame: frame.replace(b"_", b"$-1"))
