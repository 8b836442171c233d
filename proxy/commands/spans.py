"""How many elements or bytes a read asks for, as far as its arguments tell.

A span up to the end of the collection (``LRANGE k 0 -1``, XRANGE without COUNT) is *endless*: its length depends on the
collection. Options are read as the commands themselves read them: if an option occurs twice, the last counts. Arguments
that Redis refuses ask for nothing.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from proxy.commands.command import Command
from proxy.commands.row import SpanSyntax
from proxy.commands.rows import ROWS
from proxy.commands.values import whole_number
from proxy.commands.words import word_of

ENDLESS = 1 << 63
"""All elements."""

_Argv: TypeAlias = list[bytes]


def elements_asked(command: Command) -> int | None:
    """The most elements that the command can return, remove or store; None if it asks for no span."""
    read = _ELEMENTS.get(command.spec.name)
    return None if read is None else read(command.argv)


def bytes_asked(command: Command) -> int | None:
    """The most bytes of a string that the command can return; None if it asks for no part of a string."""
    if command.spec.name not in BYTE_SPANS:
        return None
    return _by_rank(command.argv, 2) if len(command.argv) == 4 else 0


def scan_count(command: Command) -> tuple[int, int] | None:
    """COUNT of SCAN, HSCAN, SSCAN and ZSCAN: the number and the index of its argument; None without COUNT."""
    index = _scan_option(command, b"COUNT")
    number = whole_number(command.argv[index]) if index else None
    return None if number is None else (number, index)


def scan_pattern(command: Command) -> int:
    """The index of the argument with MATCH's pattern, for the same commands; 0 without MATCH."""
    return _scan_option(command, b"MATCH")


def _scan_option(command: Command, wanted: bytes) -> int:
    # The argument behind the last such option. NOVALUES (HSCAN) and NOSCORES (Valkey's ZSCAN) stand alone.
    found = 0
    i = SCANS[command.spec.name]
    while i + 1 < len(command.argv):
        word = word_of(command.argv[i])
        if word == wanted:
            found = i + 1
        i += 1 if word in (b"NOVALUES", b"NOSCORES") else 2
    return found


def _number(argv: _Argv, index: int) -> int:
    number = whole_number(argv[index]) if index < len(argv) else None
    return 0 if number is None else number


def _by_rank(argv: _Argv, start: int) -> int:
    # Two ranks. A negative one counts from the end of the collection, and its length is unknown here.
    first, last = whole_number(argv[start]), whole_number(argv[start + 1])
    if first is None or last is None:
        return 0
    if (first < 0) == (last < 0):
        return max(0, last - first + 1)
    return ENDLESS if last < 0 else min(-first, last + 1)


def _options(argv: _Argv, start: int, wanted: bytes, widths: Mapping[bytes, int], at: int = 1) -> int | None:
    # The number ``at`` places behind the last ``wanted``; None without it. Options take one argument by default.
    found = None
    i = start
    while i < len(argv):
        word = word_of(argv[i])
        if word == wanted:
            found = _number(argv, i + at)
        i += widths.get(word, 1)
    return found


_LIMITED = {b"LIMIT": 3}


def _limit(argv: _Argv, start: int) -> int:
    found = _options(argv, start, b"LIMIT", _LIMITED, 2)
    return ENDLESS if found is None or found < 0 else found


def _rank(argv: _Argv) -> int:
    return _by_rank(argv, 2) if len(argv) >= 4 else 0


def _zrange(argv: _Argv, start: int = 2) -> int:
    # ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
    if len(argv) < start + 2:
        return 0
    words = {word_of(word) for word in argv[start + 2 :]}
    return _limit(argv, start + 2) if words & {b"BYSCORE", b"BYLEX"} else _by_rank(argv, start)


def _score(argv: _Argv) -> int:
    return _limit(argv, 4) if len(argv) >= 4 else 0


def _xrange(argv: _Argv) -> int:
    if len(argv) < 4:
        return 0
    if argv[2] == argv[3] and b"-" in word_of(argv[2])[1:]:
        return 1  # one ID, whole
    found = _options(argv, 4, b"COUNT", {b"COUNT": 2})
    return ENDLESS if found is None else max(0, found)


_STREAM_OPTIONS = {b"COUNT": 2, b"BLOCK": 2, b"GROUP": 3, b"CLAIM": 2}


def _xread(argv: _Argv) -> int:
    # COUNT is for each stream. ``$`` asks for the entries that come while the command waits, ``+`` for the last entry.
    i, count = 1, 0
    while i < len(argv) and word_of(argv[i]) != b"STREAMS":
        if word_of(argv[i]) == b"COUNT":
            count = _number(argv, i + 1)
        i += _STREAM_OPTIONS.get(word_of(argv[i]), 1)
    streams = max(0, len(argv) - i - 1) // 2
    if streams and all(word_of(stream_id) in (b"$", b"+") for stream_id in argv[-streams:]):
        return streams
    return count * streams if count > 0 else ENDLESS if streams else 0


def _xpending(argv: _Argv) -> int:
    # XPENDING key group [[IDLE ms] start end count [consumer]]; without a range it is a summary
    start = 5 if len(argv) > 3 and word_of(argv[3]) == b"IDLE" else 3
    return max(0, _number(argv, start + 2)) if len(argv) > start + 2 else 0


def _xinfo_stream(argv: _Argv) -> int:
    # XINFO STREAM key [FULL [COUNT n]]: the last n entries, and n pending entries of each group; 0 means all.
    if len(argv) < 4 or word_of(argv[3]) != b"FULL":
        return 2
    found = _options(argv, 4, b"COUNT", {b"COUNT": 2})
    return 10 if found is None or found < 0 else found or ENDLESS


def _xautoclaim(argv: _Argv) -> int:
    found = _options(argv, 6, b"COUNT", {b"COUNT": 2})
    return 100 if found is None else max(0, found)


_AREA = {b"COUNT": 2, b"FROMMEMBER": 2, b"FROMLONLAT": 3, b"BYRADIUS": 3, b"BYBOX": 4}


def _near(start: int) -> Callable[[_Argv], int]:
    # The GEO family: options begin at ``start``, behind members and places, so no member can be mistaken for an option.
    widths = {**_AREA, b"STORE": 2, b"STOREDIST": 2}

    def read(argv: _Argv) -> int:
        found = _options(argv, start, b"COUNT", widths)
        return ENDLESS if found is None else max(0, found)

    return read


def _geosearchstore(argv: _Argv) -> int:
    # STOREDIST takes no argument here.
    found = _options(argv, 3, b"COUNT", _AREA)
    return ENDLESS if found is None else max(0, found)


def _counted(argv: _Argv) -> int:
    # LPOP key [count] and similar commands. A negative count of SRANDMEMBER may return a member several times.
    return abs(_number(argv, 2)) if len(argv) > 2 else 1


def _popped(argv: _Argv) -> int:
    # LMPOP numkeys key … LEFT|RIGHT [COUNT n]
    return max(0, _number(argv, len(argv) - 1)) if len(argv) > 5 and word_of(argv[-2]) == b"COUNT" else 1


def _lpos(argv: _Argv) -> int:
    found = _options(argv, 3, b"COUNT", {b"COUNT": 2, b"RANK": 2, b"MAXLEN": 2})
    return 1 if found is None else ENDLESS if found == 0 else max(0, found)


def _sort(argv: _Argv) -> int:
    found = _options(argv, 2, b"LIMIT", {b"LIMIT": 3, b"BY": 2, b"GET": 2, b"STORE": 2}, 2)
    return ENDLESS if found is None or found < 0 else found


_READERS: dict[SpanSyntax, Callable[[_Argv], int]] = {
    "ranks": _rank,
    "zrange": _zrange,
    "zrangestore": lambda argv: _zrange(argv, 3),
    "scores": _score,
    "xrange": _xrange,
    "xread": _xread,
    "xinfo stream": _xinfo_stream,
    "xpending": _xpending,
    "xautoclaim": _xautoclaim,
    "geosearch": _near(2),
    "geosearchstore": _geosearchstore,
    "georadius": _near(6),
    "georadiusbymember": _near(5),
    "count": _counted,
    "popped": _popped,
    "lpos": _lpos,
    "sort": _sort,
}
_ELEMENTS = {row.name: _READERS[row.span] for row in ROWS.values() if row.span is not None}

SPANS = frozenset(_ELEMENTS)
"""Commands that ask for a span of elements."""

BYTE_SPANS = frozenset(row.name for row in ROWS.values() if row.string_span)
"""Commands that ask for a part of a string."""

SCANS: Mapping[str, int] = {row.name: row.scan_options for row in ROWS.values() if row.scan_options}
"""The SCAN family, and where the options of each begin."""
