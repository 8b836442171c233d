"""Which keys get the TTL of a rule, and which get rid of it again."""

from collections import Counter
from collections.abc import Callable, Iterable

from proxy.rules.stored import StoredKey
from proxy.server.stored.changes.journal import Entry
from proxy.server.stored.changes.model import Wish
from proxy.server.stored.changes.purge import LATE
from proxy.server.stored.totals import Judged


class Expire:
    """Gives TTLs to keys of a database that have none. ``ttl_of`` tells the milliseconds for a key of an app, by a
    random number; None if the key gets none."""

    asks_idle = False
    asks_time = True

    def __init__(
        self, database: int, ttl_of: Callable[[str, StoredKey, float], int | None], random: Callable[[], float]
    ) -> None:
        self._database = database
        self._ttl_of = ttl_of
        self._random = random

    def concerns(self, database: int, _name: bytes) -> bool:
        """Whether it is in the database."""
        return database == self._database

    def picks(self, key: StoredKey, judged: Judged, left: Counter[str]) -> bool:
        """Whether it has no TTL, and the rule gives it one."""
        if key.ttl is not None:
            return False
        is_given = self._ttl_of(judged.app, key, 0.0) is not None
        left["without a TTL, and the rule gives them none"] += not is_given
        return is_given

    def wish(self, _database: int, key: StoredKey, judged: Judged, now: int, _idle: int) -> Wish | None:
        """Let it expire."""
        milliseconds = self._ttl_of(judged.app, key, self._random())
        if milliseconds is None:
            return None
        command = (b"PEXPIREAT", key.name, b"%d" % (now + milliseconds))
        return Wish(key, command, -1, -1, until=now + round(LATE * milliseconds))


class Undo:
    """Makes persistent what a journal has given a TTL, if it still expires at that very time."""

    asks_idle = asks_time = False

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._at = {(entry.database, entry.key): entry.at for entry in entries}

    @property
    def databases(self) -> set[int]:
        """Where they are."""
        return {database for database, _ in self._at}

    def concerns(self, database: int, name: bytes) -> bool:
        """Whether the journal has given it a TTL."""
        return (database, name) in self._at

    def picks(self, key: StoredKey, _judged: Judged, left: Counter[str]) -> bool:
        """Whether it has a TTL."""
        left["without a TTL"] += key.ttl is None
        return key.ttl is not None

    def wish(self, database: int, key: StoredKey, _judged: Judged, _now: int, _idle: int) -> Wish | None:
        """Make it persistent."""
        most = 0 if key.ttl is None else key.ttl
        return Wish(key, (b"PERSIST", key.name), 0, most, at=self._at[database, key.name])
