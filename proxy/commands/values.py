"""The values that a command stores: which of its arguments are values, and how many members they make.

No engine reports this, so the rows of commands do. Names of fields and members count as values: Redis stores them, too.
Scores, times and options among them are short and do not matter. A command that writes at an offset (SETRANGE, SETBIT,
BITFIELD) makes the string at least as long as the end of its write. A payload of RESTORE counts with its unpacked size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from proxy.commands.command import Command
from proxy.commands.payload import PayloadKind, Unpacked, unpacked
from proxy.commands.row import Stores, ValueSyntax
from proxy.commands.rows import ROWS
from proxy.commands.words import word_of


@dataclass(frozen=True, slots=True)
class Value:
    """Bytes to be stored: argument ``index``, for the key in argument ``key``; ``length`` is their least size."""

    key: int
    index: int
    length: int


class _Run(NamedTuple):
    """Every ``step``-th argument from ``first`` on; only that one if ``step`` is 0; none if ``first`` is 0."""

    first: int
    step: int

    def indexes(self, argc: int) -> range:
        if self.first == 0 or self.first >= argc:
            return range(0)
        return range(self.first, argc, self.step) if self.step else range(self.first, self.first + 1)


def _run(text: str) -> _Run:
    first, endless, step = text.partition("..")
    if not first:
        return _Run(0, 0)
    return _Run(int(first), int(step.removeprefix("/") or 1) if endless else 0)


_DECIDED = {row.name: row.stores for row in ROWS.values() if row.stores is not None}
_STORES = {name: stores for name, stores in _DECIDED.items() if stores != Stores()}
_VALUES = {name: _run(stores.values) for name, stores in _STORES.items() if stores.syntax is None}
_FAR = frozenset(name for name, stores in _STORES.items() if stores.syntax not in (None, "msetex"))


def brings_values(name: str) -> bool:
    """Whether a command (``"SET"``) stores bytes of its arguments, or may make a string longer."""
    return name in _STORES


def writes_far(name: str) -> bool:
    """Whether it can store many more bytes than its arguments have, by writing at an offset or by unpacking."""
    return name in _FAR


def plain_values(name: str) -> tuple[int, int] | None:
    """The first argument that is a value (0: none is), and the step to the next ones (0: there are none). None if the
    places alone do not tell which arguments are values."""
    return _VALUES.get(name)


def values_of(command: Command) -> list[Value]:
    """The values that a command brings, in the order of its arguments; none if Redis refuses its numbers."""
    stores = _STORES.get(command.spec.name)
    if stores is None:
        return []
    if stores.syntax is not None:
        return _READERS[stores.syntax](command)
    behind = stores.key_before
    key = command.key_places[0][0] if command.key_places else 1
    indexes = _VALUES[command.spec.name].indexes(len(command.argv))
    return [Value(index - behind if behind else key, index, command.length(index)) for index in indexes]


def members_of(command: Command) -> int:
    """How many fields, elements or members a command writes, or an entry of a stream has; 0 if it writes none."""
    if command.spec.name in RESTORES:
        return payload_of(command).members
    stores = _STORES.get(command.spec.name)
    if stores is None:
        return 0
    if stores.members in _COUNTS:
        return _COUNTS[stores.members](command)
    return len(_MEMBERS[command.spec.name].indexes(len(command.argv)))


# Members that a syntax tells

_SCORED = frozenset({b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"})
_PLACED = frozenset({b"NX", b"XX", b"CH"})


def _behind_options(options: frozenset[bytes], width: int) -> Callable[[Command], int]:
    # Each member has this number of arguments.
    def count(command: Command) -> int:
        argv, i = command.argv, 2
        while i < len(argv) and word_of(argv[i]) in options:
            i += 1
        return (len(argv) - i) // width

    return count


def _behind_fields(command: Command) -> int:
    # HSETEX key … FIELDS n field value …: if n is not true, Redis refuses the command.
    argv = command.argv
    return next((i + 2 for i in range(2, len(argv)) if word_of(argv[i]) == b"FIELDS"), len(argv))


def _members_behind_fields(command: Command) -> int:
    return max(0, len(command.argv) - _behind_fields(command)) // 2


ENTRY_OPTIONS = {b"NOMKSTREAM": 1, b"KEEPREF": 1, b"DELREF": 1, b"ACKED": 1, b"LIMIT": 2, b"IDMP": 3, b"IDMPAUTO": 2}
"""Options of XADD beside MAXLEN and MINID, and how many arguments each takes, its own included."""


def _fields_of_entry(command: Command) -> int:
    # XADD key [NOMKSTREAM] [MAXLEN|MINID [=|~] threshold [LIMIT n]] id field value …
    argv, i = command.argv, 2
    while i < len(argv):
        word = word_of(argv[i])
        if word in (b"MAXLEN", b"MINID"):
            i += 3 if i + 1 < len(argv) and word_of(argv[i + 1]) in (b"=", b"~") else 2
        elif word in ENTRY_OPTIONS:
            i += ENTRY_OPTIONS[word]
        else:
            break
    return max(0, len(argv) - i - 1) // 2


_COUNTS: dict[str, Callable[[Command], int]] = {
    "scored": _behind_options(_SCORED, 2),
    "placed": _behind_options(_PLACED, 3),
    "fields": _members_behind_fields,
    "entry": _fields_of_entry,
}
_MEMBERS = {name: _run(stores.members) for name, stores in _STORES.items() if stores.members not in _COUNTS}

FIELD_WRITES = frozenset(
    row.name
    for row in ROWS.values()
    if row.grows is not None and row.grows.measure == "HLEN" and row.creates is not None
)
"""Commands that write fields of a hash, and name them. (HIMPORT SET writes those that its connection has prepared.)"""


def fields_of(command: Command) -> range:
    """The arguments of such a command that name fields; behind each of them is its value, or what is added to it."""
    end = len(command.argv) - 1
    if _STORES[command.spec.name].members == "fields":
        return range(_behind_fields(command), end, 2)
    return _MEMBERS[command.spec.name].indexes(end)


# Values that a syntax tells


def _values_of_msetex(command: Command) -> list[Value]:
    # MSETEX numkeys key value … [options]
    pairs = whole_number(command.argv[1]) if len(command.argv) > 1 else None
    end = len(command.argv) if pairs is None else min(len(command.argv), 2 + 2 * max(pairs, 0))
    return [Value(index - 1, index, command.length(index)) for index in range(3, end, 2)]


def _end_of_setrange(command: Command) -> list[Value]:
    if len(command.argv) != 4:
        return []
    offset, length = whole_number(command.argv[2]), command.length(3)
    # Without bytes it changes nothing, at any offset.
    return [Value(1, 3, max(offset or 0, 0) + length)] if length else []


def _end_of_setbit(command: Command) -> list[Value]:
    offset = whole_number(command.argv[2]) if len(command.argv) == 4 else None
    return [] if offset is None or offset < 0 else [Value(1, 2, offset // 8 + 1)]


def _ends_of_bitfield(command: Command) -> list[Value]:
    argv, ends, i = command.argv, [], 2
    while i < len(argv):
        word = word_of(argv[i])
        if word in (b"SET", b"INCRBY") and i + 3 < len(argv):
            end = _end_of_bits(argv[i + 1], argv[i + 2])
            if end:
                ends.append(Value(1, i + 2, end))
        i += {b"GET": 3, b"SET": 4, b"INCRBY": 4, b"OVERFLOW": 2}.get(word, 1)
    return ends


def _end_of_bits(kind: bytes, offset: bytes) -> int:
    # The length in bytes of a string that has this field: ``u8 100``, ``i5 #3`` (the fourth field of 5 bits).
    width = whole_number(word_of(kind)[1:])
    start = whole_number(offset.removeprefix(b"#"))
    if width is None or start is None or start < 0:
        return 0
    return ((start * width if offset.startswith(b"#") else start) + width + 7) // 8


RESTORES = frozenset(name for name, stores in _STORES.items() if stores.syntax == "payload")


def payload_of(command: Command) -> Unpacked:
    """The size of the value in a RESTORE's payload; zero if it has no payload."""
    if len(command.argv) <= _PAYLOAD:
        return Unpacked(PayloadKind.UNKNOWN, 0, 0)
    return unpacked(command.argv[_PAYLOAD], command.length(_PAYLOAD))


def _value_of_payload(command: Command) -> list[Value]:
    if len(command.argv) <= _PAYLOAD:
        return []
    return [Value(1, _PAYLOAD, max(command.length(_PAYLOAD), payload_of(command).bytes))]


_PAYLOAD = 3
_READERS: dict[ValueSyntax, Callable[[Command], list[Value]]] = {
    "msetex": _values_of_msetex,
    "payload": _value_of_payload,
    "setrange": _end_of_setrange,
    "setbit": _end_of_setbit,
    "bitfield": _ends_of_bitfield,
}


def whole_number(word: bytes) -> int | None:
    """A number as Redis reads it from an argument; None if Redis answers that it is no integer."""
    digits = word[1:] if word.startswith(b"-") else word
    if not digits.isdigit() or len(digits) > 19 or (digits.startswith(b"0") and len(word) > 1):
        return None
    number = int(word)
    return number if -(1 << 63) <= number < 1 << 63 else None
