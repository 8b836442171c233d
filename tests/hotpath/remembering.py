"""A client of the hot path whose database has a reply cache with one hot key."""

from __future__ import annotations

from proxy.commands.cached_reads import cache_role
from proxy.commands.table import STANDARD
from proxy.hotpath.cache.cache_use import CacheUse
from proxy.hotpath.cache.cached_reads import CachedReads
from proxy.hotpath.cache.cached_reply import ReplyMemory
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.plan.plan import Plan
from tests.hotpath.gathering import Client, pack
from tests.local_cache.given import trusted

ROLES = bytes(map(cache_role, STANDARD.specs))
GET = pack("GET", "hot")
ASKED = 0.75
"""When Redis was asked for replies; it is 1.0 now."""


class Cached(Client):
    """A client whose database has a cache, and what it is sent."""

    def __init__(self, plan: Plan | None = None, *, resp3: bool = False) -> None:
        super().__init__(plan)
        self.cache = ReplyCache()
        self.source = trusted(self.cache)
        self.memory = ReplyMemory(1 << 20)
        self.use = CacheUse(1)
        self.cache.become_hot({b"hot"}, ())
        self.waits = False
        self.polls = 0
        self.reads = CachedReads(self.cache, [self.cache], ROLES, lambda: 1.0, self.unread, [self.use], resp3=resp3)
        self.intake.cached_reads = self.reads
        self.sent: list[bytes] = []
        self.sender.write = self.sent.append
        self.keep(GET, b"$1\r\nv\r\n")

    def unread(self) -> bool:
        self.polls += 1
        return self.waits

    def keep(self, request: bytes, resp3: bytes | None, resp2: bytes | None = None, key: bytes = b"hot") -> None:
        found = self.cache.begin_fill(key)
        assert found is not None
        self.cache.keep(
            self.source, 0, self.memory, found, request, resp3, resp3 if resp2 is None else resp2, ASKED, 50.0, 1, 2
        )
        self.cache.end_fill(found)

    def take_runs(self) -> list[tuple[bytes, int]]:
        """What has been forwarded since the last call."""
        runs = [(chunk, count) for _, chunk, count in self.log]
        self.log.clear()
        return runs

    def take_missed(self) -> list[bytes]:
        """The reads that the session was asked about since the last call; memory may have their replies later."""
        assert self.intake.missed == bool(self.log)
        assert all(what == "special" for what, *_ in self.log)
        missed = [chunk for _, chunk in self.log]
        self.log.clear()
        self.intake.missed = False
        return missed

    def forward_hot(self, request: bytes) -> None:
        """The session has sent a command of the hot key."""
        self.sender.forward(self.fake_upstream, request)
        self.reads.hold_name(b"hot", self.sender, self.sender.requested, True)

    def redis_answers(self, *replies: bytes) -> None:
        self.fake_upstream.receive(b"".join(replies))
