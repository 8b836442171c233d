"""What is known to be stored, by owner, and what clients write meanwhile.

A scan counts what is there. What clients write afterwards cannot be told from the outside: SET creates a key or
overwrites one, and no reply says which; a key whose TTL runs out goes without a word. So a count has two bounds:

- at least: the keys of the scan, less those that commands have deleted since (each named key counts as deleted), and
  less those whose TTL, as the scan found it, may have run out by now;
- at most: the keys of the scan, and one for each command since that may have created one.

Bytes go with the keys: each key that may have gone takes the mean size of the owner's keys with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from proxy.hotpath.plan.leased_tokens import UNLIMITED, LeasedTokens, TokenSet
from proxy.rules.limit_membership import Presence
from proxy.rules.shared_state import OwnedKeys, Stored, StoredState, Written

ANY_NUMBER = 1 << 53
"""Counts for a command that may delete any number of keys."""
NO_APP = ""
"""Clients of no app; also, nobody, if it is the owner of keys."""


@dataclass(frozen=True, slots=True)
class Most:
    """The most that an owner may have; None is no limit."""

    keys: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """What one owner has: the figures of the scan, and how many of these keys may be gone by now. ``creating`` commands
    of the owner's clients, of ``written`` bytes, may have added to it."""

    found: OwnedKeys
    gone: int
    creating: int
    written: int

    @property
    def least_keys(self) -> int:
        """The keys that are left of those that the scan has found."""
        return self.found.keys - self.gone

    @property
    def least_bytes(self) -> int:
        """Their bytes, if keys that are gone had the mean size."""
        return self.found.bytes * self.least_keys // self.found.keys if self.found.keys else 0

    def exceeds(self, most: Most) -> bool:
        """Whether even what is left is more than this."""
        over_keys = most.keys is not None and self.least_keys > most.keys
        return over_keys or (most.bytes is not None and self.least_bytes > most.bytes)


def holding(stored: Stored, owner: str, now: float) -> Holding:
    """What an owner has, by a scan. What clients of no app delete may be anybody's."""
    found = stored.owners.get(owner, OwnedKeys())
    age = 0.0 if stored.scanned is None else now - stored.scanned
    expired = sum(keys for seconds, keys in found.expiring if age >= seconds)
    mine, others = (stored.since.get(app, Written()) for app in (owner, NO_APP))
    gone = min(found.keys, expired + mine.deleted + others.deleted)
    return Holding(found, gone, mine.creating, mine.bytes)


class _Tokens:
    """A token set from which the hot path takes without end, until it is ``shut``: the commands are judged then."""

    def __init__(self) -> None:
        self._commands, self._bytes = LeasedTokens(UNLIMITED), LeasedTokens(UNLIMITED)
        self.presence = Presence(TokenSet(self._commands, self._bytes, LeasedTokens(UNLIMITED)))
        self.is_shut = False

    def shut(self, shut: bool) -> None:
        """Let nothing be taken, or let everything. What was taken before has to be asked for first."""
        self.is_shut = shut
        self._commands.left = 0 if shut else UNLIMITED

    def taken(self) -> tuple[int, int]:
        """The commands and bytes that were taken since the last call."""
        commands = (0 if self.is_shut else UNLIMITED) - self._commands.left
        size = UNLIMITED - self._bytes.left
        self._commands.left += commands
        self._bytes.left = UNLIMITED
        return commands, size


class Holdings(StoredState):
    """What one rule knows in one worker, and what the clients of each app write there."""

    def __init__(self, most: Most, max_age: float, *, by_owner: bool) -> None:
        self.stored = Stored()
        self.most = most
        self._max_age = max_age
        self._by_owner = by_owner
        self._over: frozenset[str] = frozenset()
        self._creating: dict[str, _Tokens] = {}
        self._deleting: dict[str, _Tokens] = {}
        self._written: dict[str, Written] = {}

    def creating(self, app: str) -> Presence:
        """What the app's clients take from when they create keys."""
        if app not in self._creating:
            self._creating[app] = _Tokens()
            self._creating[app].shut(self._hinders(app))
        return self._creating[app].presence

    def deleting(self, app: str) -> Presence:
        """What the app's clients take from when they delete keys."""
        return self._deleting.setdefault(app, _Tokens()).presence

    def note(self, app: str, written: Written) -> None:
        """Count what the rules have judged."""
        self._written[app] = self._written.get(app, Written()) + written

    def written(self) -> Mapping[str, Written]:
        for app, tokens in self._creating.items():
            self._note_created(app, tokens)
        for app, tokens in self._deleting.items():
            if commands := tokens.taken()[0]:
                self.note(app, Written(deleted=commands))
        found, self._written = self._written, {}
        return found

    def _note_created(self, app: str, tokens: _Tokens) -> None:
        commands, size = tokens.taken()
        if commands:
            self.note(app, Written(commands, size))

    def learn(self, stored: Stored, now: float) -> None:
        self.stored = stored
        self._over = frozenset(owner for owner in stored.owners if self.over(owner, now) is not None)
        for app, tokens in self._creating.items():
            if tokens.is_shut is not self._hinders(app):
                self._note_created(app, tokens)
                tokens.shut(not tokens.is_shut)

    def over(self, owner: str, now: float) -> Holding | None:
        """What the owner has, if that is too much by a scan that is not too old."""
        if owner == NO_APP or not self.is_fresh(now):
            return None
        found = holding(self.stored, owner, now)
        return found if found.exceeds(self.most) else None

    def is_fresh(self, now: float) -> bool:
        """Whether there is a scan that is not too old. If it is yet to begin, a clock went back: nobody knows how old
        it is."""
        return self.stored.scanned is not None and 0 <= now - self.stored.scanned <= self._max_age

    def _hinders(self, app: str) -> bool:
        return bool(self._over) if self._by_owner else app in self._over
