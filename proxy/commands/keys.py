# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Finds the arguments of a request that are keys, and the keys that it may write.

Most commands have one plain range of keys and take one step. The others follow Redis's key specifications. The answer
is UNKNOWN_KEYS, never "no keys", if a specification does not fit the arguments (a count that is no number, keys beyond
the last argument), or if only the command itself knows its keys. A keyword is optional: its absence is no misfit. Nor
is an empty range up to the end, as the sources of ``PFMERGE dest``.

Five syntaxes are walked as the commands themselves walk them, because no specification describes them correctly: SORT
(the last STORE counts), MIGRATE, GEORADIUS (the last STORE or STOREDIST is written, and engines take all of them for
keys), XREAD and XREADGROUP (a group or consumer may be called STREAMS), and BITFIELD (it only reads if all its
operations are GET). With Redis's own key functions, a client could name a key that the command uses and that the policy
does not see.
"""

from array import array
from collections.abc import Sequence

from proxy.commands.overlay import READ_KEYS
from proxy.commands.rows import ROWS
from proxy.commands.spec import KeySpec
from proxy.commands.words import Keyword
from proxy.wire.request import Request

_READ = 1
_WRITE = 2

_NONE = 0
_RANGE = 1
_SPECS = 2
_SORT = 3
_MIGRATE = 4
_GEORADIUS = 5
_STREAMS = 6
_BITFIELD = 7
_UNTOLD = 8

_WALKED = {"sort": _SORT, "migrate": _MIGRATE, "georadius": _GEORADIUS, "streams": _STREAMS, "bitfield": _BITFIELD}
_SYNTAXES = {row.name: _WALKED[row.key_syntax] for row in ROWS.values() if row.key_syntax is not None}

# It has two names: a C integer for this module, a Python integer for other modules.
_UNKNOWN_KEYS = -2
UNKNOWN_KEYS = _UNKNOWN_KEYS
"""The result of ``KeyFinder.find`` if the keys are unknown."""

_FIRST_CAPACITY = 64
_KEPT_CAPACITY = 16384
_MOST_DIGITS = 10

# One specification is a row of this many numbers.
_WIDTH = 9
_KEYWORD = 0
_START = 1
_KEYNUM = 2
_LAST = 3
_STEP = 4
_LIMIT = 5
_COUNT_AT = 6
_FIRST_KEY = 7
_ACCESS = 8

_WORD_STORE = Keyword(b"STORE")
_WORD_STOREDIST = Keyword(b"STOREDIST")
_WORD_LIMIT = Keyword(b"LIMIT")
_WORD_BY = Keyword(b"BY")
_WORD_GET = Keyword(b"GET")
_WORD_KEYS = Keyword(b"KEYS")
_WORD_AUTH = Keyword(b"AUTH")
_WORD_AUTH2 = Keyword(b"AUTH2")
_WORD_STREAMS = Keyword(b"STREAMS")
_WORD_GROUP = Keyword(b"GROUP")
_WORD_BLOCK = Keyword(b"BLOCK")
_WORD_OVERFLOW = Keyword(b"OVERFLOW")


class KeyFinder:
    """The keys of requests. ``find`` returns how many there are; ``indexes`` then holds the indexes of the arguments
    that are keys, and ``access`` the access to each: 1 read, 2 write.

    ``commands`` are names and key specifications. Of a command without a name, nothing is known.
    """

    def __init__(self, commands: Sequence[tuple[str, Sequence[KeySpec]]]) -> None:
        self.indexes = array("i", bytes(4 * _FIRST_CAPACITY))
        self.access = array("i", bytes(4 * _FIRST_CAPACITY))
        self.capacity = _FIRST_CAPACITY
        self.count = 0
        self.kinds = bytearray(len(commands))
        self.offsets = array("i", bytes(4 * (len(commands) + 1)))
        self.keywords: list[Keyword] = []
        numbers: list[int] = []
        for i, (name, key_specs) in enumerate(commands):
            self.offsets[i] = len(numbers)
            named = [spec for spec in key_specs if spec.names_keys]
            usable = [spec for spec in named if _usable(spec)]
            for spec in usable:
                numbers += self._row(spec, name in READ_KEYS)
            told = name and len(usable) == len(named)
            self.kinds[i] = _SYNTAXES.get(name, _kind(usable) if told else _UNTOLD)
        self.offsets[len(commands)] = len(numbers)
        self.rows = array("i", numbers or [0])

    def _row(self, spec: KeySpec, read_only: bool) -> list[int]:
        keyword = 0
        if spec.begin == "keyword":
            self.keywords.append(Keyword(spec.keyword.encode("ascii")))
            keyword = len(self.keywords)
        access = _WRITE if spec.writes and not read_only else _READ
        keynum = int(spec.find == "keynum")
        return [
            keyword,
            spec.start,
            keynum,
            spec.last,
            spec.step,
            spec.limit,
            spec.count_at,
            spec.first_key,
            access,
        ]

    def find(self, command_id: int, request: Request) -> int:
        """The number of keys of the request, or UNKNOWN_KEYS. Never raises, whatever a client sent."""
        kind = self.kinds[command_id]
        self.count = 0
        if self.capacity > _KEPT_CAPACITY:
            self._shrink()
        if kind == _NONE:
            return 0
        if kind == _RANGE:
            return self._range(self.offsets[command_id], request.argc)
        return self._find(kind, command_id, request, request.data)

    def listed(self) -> list[tuple[int, bool]]:
        """The keys that ``find`` has found, as (argument, whether the command may write it)."""
        result = []
        i = 0
        while i < self.count:
            result.append((self.indexes[i], self.access[i] == _WRITE))
            i += 1
        return result

    def blocks(self, command_id: int, request: Request) -> bool:
        """Whether a command of ConnectionState.BLOCKING can block with these arguments: XREAD without BLOCK cannot."""
        if self.kinds[command_id] != _STREAMS:
            return True
        return self._stream_options(request, request.data) < 0

    def _range(self, row: int, argc: int) -> int:
        first = self.rows[row + _START]
        last = self.rows[row + _LAST]
        last = first + last if last >= 0 else argc + last
        if last >= argc or last < first:
            return 0 if last + 1 == first and self.rows[row + _LAST] < 0 else _UNKNOWN_KEYS
        step = self.rows[row + _STEP]
        access = self.rows[row + _ACCESS]
        if first + step > last:
            self.indexes[0] = first
            self.access[0] = access
            self.count = 1
            return 1
        while first <= last:
            self._add(first, access)
            first += step
        return self.count

    def _add(self, index: int, access: int) -> None:
        if self.count >= self.capacity:
            self._grow()
        self.indexes[self.count] = index
        self.access[self.count] = access
        self.count += 1

    def _grow(self) -> None:
        capacity = self.capacity * 2
        indexes = array("i", bytes(4 * capacity))
        access = array("i", bytes(4 * capacity))
        i = 0
        while i < self.count:
            indexes[i] = self.indexes[i]
            access[i] = self.access[i]
            i += 1
        self.indexes = indexes
        self.access = access
        self.capacity = capacity

    def _find(self, kind: int, command_id: int, request: Request, data: bytes | bytearray) -> int:
        if kind == _UNTOLD or request.argc < 2:
            return _UNKNOWN_KEYS
        if kind == _SPECS:
            return self._specs(self.offsets[command_id], self.offsets[command_id + 1], request, data)
        if kind == _SORT:
            return self._sort(request, data)
        if kind == _MIGRATE:
            return self._migrate(request, data)
        if kind == _GEORADIUS:
            return self._georadius(request, data)
        if kind == _STREAMS:
            return self._streams(request, data)
        return self._bitfield(request, data)

    def _shrink(self) -> None:
        self.indexes = array("i", bytes(4 * _FIRST_CAPACITY))
        self.access = array("i", bytes(4 * _FIRST_CAPACITY))
        self.capacity = _FIRST_CAPACITY

    def _specs(self, row: int, end: int, request: Request, data: bytes | bytearray) -> int:
        while row < end:
            if self._spec(row, request, data) == _UNKNOWN_KEYS:
                return self._unknown()
            row += _WIDTH
        return self.count

    def _unknown(self) -> int:
        self.count = 0
        return _UNKNOWN_KEYS

    def _spec(self, row: int, request: Request, data: bytes | bytearray) -> int:
        argc = request.argc
        first = self.rows[row + _START]
        if self.rows[row + _KEYWORD] != 0:
            first = self._behind_keyword(self.rows[row + _KEYWORD] - 1, first, request, data)
            if first == 0:
                return 0
        step = self.rows[row + _STEP]
        if self.rows[row + _KEYNUM] != 0:
            if first + self.rows[row + _COUNT_AT] >= argc:
                return _UNKNOWN_KEYS
            keys = self._number(request, data, first + self.rows[row + _COUNT_AT])
            if keys <= 0:
                return _UNKNOWN_KEYS if keys < 0 else 0
            first += self.rows[row + _FIRST_KEY]
            last = first + (keys - 1) * step
        elif self.rows[row + _LAST] >= 0:
            last = first + self.rows[row + _LAST]
        elif self.rows[row + _LIMIT] == 0:
            last = argc + self.rows[row + _LAST]
        else:
            last = first + (argc - first) // self.rows[row + _LIMIT] + self.rows[row + _LAST]
        if last >= argc:
            return _UNKNOWN_KEYS
        if last < first:
            return 0 if last + 1 == first and self.rows[row + _LAST] < 0 else _UNKNOWN_KEYS
        while first <= last:
            self._add(first, self.rows[row + _ACCESS])
            first += step
        return 0

    def _behind_keyword(self, keyword: int, start: int, request: Request, data: bytes | bytearray) -> int:
        word = self.keywords[keyword]
        if start >= 0:
            i = start
            while i + 1 < request.argc:
                if self._is(request, data, i, word):
                    return i + 1
                i += 1
            return 0
        i = request.argc + start
        while i > 0 and i + 1 < request.argc:
            if self._is(request, data, i, word):
                return i + 1
            i -= 1
        return 0

    def _number(self, request: Request, data: bytes | bytearray, index: int) -> int:
        """The argument as Redis reads a count (no sign, no leading zero); -1 if it is none."""
        i = request.starts[index]
        end = request.ends[index]
        if i == end or end - i > _MOST_DIGITS or (data[i] == 48 and end - i > 1):
            return -1
        value = 0
        while i < end:
            if data[i] < 48 or data[i] > 57:
                return -1
            value = value * 10 + (data[i] - 48)
            i += 1
        return value

    def _is(self, request: Request, data: bytes | bytearray, index: int, word: Keyword) -> bool:
        return word.stands_at(data, request.starts[index], request.ends[index])

    def _sort(self, request: Request, data: bytes | bytearray) -> int:
        argc = request.argc
        store = 0
        i = 2
        while i < argc:
            if self._is(request, data, i, _WORD_STORE) and i + 1 < argc:
                store = i + 1
                i += 2
            elif self._is(request, data, i, _WORD_LIMIT):
                i += 3
            elif self._is(request, data, i, _WORD_BY) or self._is(request, data, i, _WORD_GET):
                i += 2
            else:
                i += 1
        self._add(1, _READ)
        if store != 0:
            self._add(store, _WRITE)
        return self.count

    def _migrate(self, request: Request, data: bytes | bytearray) -> int:
        argc = request.argc
        if argc < 6:
            return _UNKNOWN_KEYS
        i = 6
        while i < argc:
            if self._is(request, data, i, _WORD_KEYS):
                if request.ends[3] != request.starts[3]:
                    return _UNKNOWN_KEYS
                i += 1
                while i < argc:
                    self._add(i, _WRITE)
                    i += 1
                return self.count
            if self._is(request, data, i, _WORD_AUTH):
                i += 2
            elif self._is(request, data, i, _WORD_AUTH2):
                i += 3
            else:
                i += 1
        self._add(3, _WRITE)
        return self.count

    def _georadius(self, request: Request, data: bytes | bytearray) -> int:
        argc = request.argc
        self._add(1, _READ)
        i = 5
        while i + 1 < argc:
            if self._is(request, data, i, _WORD_STORE) or self._is(request, data, i, _WORD_STOREDIST):
                self._add(i + 1, _WRITE)
                i += 2
            else:
                i += 1
        return self.count

    def _streams(self, request: Request, data: bytes | bytearray) -> int:
        first = self._stream_options(request, data)
        first = first if first >= 0 else -first
        if first == 0 or first == request.argc or (request.argc - first) % 2 != 0:
            return _UNKNOWN_KEYS
        end = first + (request.argc - first) // 2
        while first < end:
            self._add(first, _READ)
            first += 1
        return self.count

    def _stream_options(self, request: Request, data: bytes | bytearray) -> int:
        """The index behind STREAMS, negative if BLOCK is among the options; 0 without STREAMS.

        Every option but GROUP takes a number or no argument, so none of their arguments can be mistaken for STREAMS.
        """
        argc = request.argc
        sign = 1
        i = 1
        while i < argc:
            if self._is(request, data, i, _WORD_STREAMS):
                return sign * (i + 1)
            if self._is(request, data, i, _WORD_GROUP):
                i += 3
            else:
                if self._is(request, data, i, _WORD_BLOCK):
                    sign = -1
                i += 1
        return 0

    def _bitfield(self, request: Request, data: bytes | bytearray) -> int:
        argc = request.argc
        access = _READ
        i = 2
        while i < argc and access == _READ:
            if self._is(request, data, i, _WORD_GET):
                i += 3
            elif self._is(request, data, i, _WORD_OVERFLOW):
                i += 2
            else:
                access = _WRITE
        self._add(1, access)
        return self.count


def _usable(spec: KeySpec) -> bool:
    return "incomplete" not in spec.flags and "unknown" not in (spec.begin, spec.find) and spec.keyword.isascii()


def _kind(usable: Sequence[KeySpec]) -> int:
    if not usable:
        return _NONE
    if len(usable) == 1 and usable[0].begin == "index" and usable[0].find == "range" and usable[0].limit == 0:
        return _RANGE
    return _SPECS
