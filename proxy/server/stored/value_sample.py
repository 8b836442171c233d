"""Values of a rule that compresses, as clients read them: what a dictionary is trained on.

Redis shows keys in the order of their hashes, so the first ones are as random as any. When there are enough values, the
walk ends. Only values that the rule would compress are taken, up to 32 KB: larger ones gain little from a dictionary.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import hiredis

from proxy.compression.dictionaries import UnknownDictionaryError
from proxy.compression.frames import FIELD, STRING, TooLargeError, unpack
from proxy.policy.tenants import StoredNames
from proxy.rules.compress.terms import Terms
from proxy.rules.stored import StoredKey
from proxy.server.stored.model import NodeFigures
from proxy.server.stored.node_walk import Act, EnoughError, Request, Tally, Walking
from proxy.server.stored.page import Command, has_moved, with_asking, without_asking
from proxy.server.stored.seen import mark_of

_MOST_VALUES = 10_000
_MOST_BYTES = 16 << 20
_LARGEST = 32 << 10
_FIELDS = b"4"
"""So many fields of a hash are looked at."""


class ValueSample:
    """The plain ``values``, of keys in one ``database``. ``refusal`` is an error of the server in place of a value;
    ``unreadable`` values need a dictionary that the rule does not name."""

    def __init__(self, terms: Terms, database: int, tenants: StoredNames) -> None:
        self.values: list[bytes] = []
        self.refusal = ""
        self.unreadable = 0
        self._bytes = 0
        self._terms = terms
        self._globs = terms.globs
        self._dictionaries = terms.dictionaries
        self._database = database
        self._tenants = tenants

    def concerns(self, database: int, key: bytes) -> bool:
        """Whether it is about a key: by its name, or by that which a tenant gives it."""
        own = self._tenants.own(key)
        names = (key,) if own is None else (key, own.name)
        return database == self._database and any(glob.fits(name) for name in names for glob in self._globs)

    def at(self, tally: Tally, figures: NodeFigures, _moved: Callable[[int], None]) -> Act:
        """What is done with the keys of a server."""

        def act(database: int, keys: list[StoredKey], asking: frozenset[bytes]) -> Walking:
            mine = [key for key in keys if self.concerns(database, key.name)]
            for key in mine:
                if tally.seen.add(mark_of(database, key.name)):
                    tally.totals.add(key, tally.judge.judge(key), figures, database)
            yield from self._read(database, mine, asking)

        return act

    @property
    def is_enough(self) -> bool:
        """Whether there are as many as can be of use."""
        return len(self.values) >= _MOST_VALUES or self._bytes >= _MOST_BYTES

    def _read(self, database: int, keys: Sequence[StoredKey], asking: frozenset[bytes]) -> Walking:
        strings = [key.name for key in keys if key.type == "string"]
        hashes = [key.name for key in keys if key.type == "hash"]
        ranges = [(b"GETRANGE", name, b"0", b"%d" % _LARGEST) for name in strings]
        drawn = [(b"HRANDFIELD", name, _FIELDS) for name in hashes]
        told = yield from self._ask(database, [*ranges, *drawn], asking)
        self._take(told[: len(strings)], STRING)
        listed = zip(hashes, told[len(strings) :], strict=True)
        fields = [(name, field) for name, its in listed if isinstance(its, list) for field in its]
        # Nobody knows how large a value is before: it is asked about, and read if it is small.
        sizes = yield from self._ask(database, [(b"HSTRLEN", *field) for field in fields], asking)
        small = [field for field, size in zip(fields, sizes, strict=True) if isinstance(size, int) and size <= _LARGEST]
        self._take((yield from self._ask(database, [(b"HGET", *field) for field in small], asking)), FIELD)
        if self.is_enough:
            raise EnoughError

    def _ask(
        self, database: int, commands: Sequence[Command], asking: frozenset[bytes]
    ) -> Generator[Request, Sequence[Any], list[Any]]:
        if not commands:
            return []
        names = [command[1] for command in commands]
        asked = zip(names, commands, strict=True)
        told = yield Request(database, [each for its in asked for each in with_asking(*its, asking)])
        replies = without_asking(names, told, asking)
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError) and not has_moved(reply):
                self.refusal = self.refusal or str(reply)
        return replies

    def _take(self, replies: Sequence[Any], version: int) -> None:
        for reply in replies:
            if not isinstance(reply, bytes) or len(reply) > _LARGEST:
                continue
            try:
                value = unpack(reply, version, self._dictionaries)
            except TooLargeError:
                continue
            except UnknownDictionaryError:
                self.unreadable += 1
                continue
            if self._terms.above < len(value) <= _LARGEST:
                self.values.append(value)
                self._bytes += len(value)
