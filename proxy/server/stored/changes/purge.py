"""Which keys a purge deletes, or gives a TTL in place of that."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from proxy.cluster.key_pattern import KeyPattern
from proxy.rules.stored import StoredKey
from proxy.server.stored.changes.model import Wish
from proxy.server.stored.page import Command
from proxy.server.stored.totals import Judged

LONGEST_IDLE = 190 * 86_400
"""Seconds. Redis counts idle time in 24 bits of seconds, 194 days, and then from 0 again."""
SPREAD = 0.1
"""A TTL that a purge gives is up to this share longer, so that keys do not expire all at once."""
LATE = 0.1
"""A TTL is not given if this share of it has gone by when the server comes to it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to delete: keys whose names match ``pattern``, as SCAN matches them, of the ``database``. If they are given:
    only keys of this ``type`` and ``owner`` (an app of the policy), ``without_ttl``, and used by nobody for ``idle``
    seconds. With ``expire``, keys get a TTL of so many seconds, unless they expire sooner."""

    pattern: bytes
    type: str = ""
    owner: str = ""
    without_ttl: bool = False
    idle: int | None = None
    expire: int | None = None
    database: int = 0


class Purge:
    """The change. ``refused_by`` tells which rule of the policy forbids a command about a key, to its owner's clients;
    ``random`` draws from [0, 1)."""

    def __init__(
        self,
        wanted: Wanted,
        refused_by: Callable[[str, Command], str],
        random: Callable[[], float],
    ) -> None:
        self.asks_idle = wanted.idle is not None
        self.asks_time = wanted.expire is not None
        self._wanted = wanted
        self._fits = KeyPattern(wanted.pattern).fits
        self._refused_by = refused_by
        self._random = random

    def concerns(self, database: int, name: bytes) -> bool:
        """Whether the key's name matches."""
        return database == self._wanted.database and self._fits(name)

    def picks(self, key: StoredKey, judged: Judged, left: Counter[str]) -> bool:
        """Whether it is of the type and the owner, has no TTL if that is asked for, and no rule protects it."""
        wanted = self._wanted
        if wanted.type not in ("", key.type) or wanted.owner not in ("", judged.app):
            return False
        if wanted.without_ttl and key.ttl is not None:
            return False
        if wanted.expire is not None and key.ttl is not None and key.ttl <= self._longest:
            left["expire sooner"] += 1
            return False
        rule = self._refused_by(judged.app, self._command(key.name, 0))
        if rule:
            left[f"protected by {rule}"] += 1
        return not rule

    def wish(self, _database: int, key: StoredKey, _judged: Judged, now: int, idle: int) -> Wish | None:
        """Delete it, or let it expire, if it was idle for long enough."""
        wanted = self._wanted
        if wanted.idle is not None and idle < wanted.idle:
            return None
        least, most = (-1, -1) if key.ttl is None else (0, key.ttl)
        if wanted.expire is None:
            return Wish(key, self._command(key.name, 0), least, most, wanted.idle)
        milliseconds = round(1000 * wanted.expire * (1 + SPREAD * self._random()))
        least = least if key.ttl is None else milliseconds
        until = now + round(LATE * milliseconds)
        return Wish(key, self._command(key.name, now + milliseconds), least, most, wanted.idle, until)

    @property
    def _longest(self) -> float:
        return 1000 * (self._wanted.expire or 0) * (1 + SPREAD)

    def _command(self, name: bytes, at: int) -> Command:
        return (b"UNLINK", name) if self._wanted.expire is None else (b"PEXPIREAT", name, b"%d" % at)
