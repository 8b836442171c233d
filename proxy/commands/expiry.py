"""How commands state a TTL: in which argument, in which unit, as a duration or as a point in time.

    SETEX k 60 v            SET k v EX 60          GETEX k PXAT 1767225600000      EXPIRE k 60 NX
    RESTORE k 60000 data    MSETEX 1 k v EX 60

Numbers are read as Redis reads them: no sign but a minus, no leading zero, 64 bits. A number states no lifetime if
Redis refuses it or deletes the key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from proxy.commands.command import Command
from proxy.commands.creation import creation_of
from proxy.commands.row import ExpiryArgument, ExpiryOptions
from proxy.commands.rows import ROWS
from proxy.commands.spec import Spec
from proxy.commands.words import word_of


class Unstated(Enum):
    """What a command that states no TTL does with the key's TTL."""

    NOTHING = auto()
    KEEPS = auto()
    """KEEPTTL: the key keeps its TTL, if it has one."""
    PERSISTS = auto()
    """PERSIST: the TTL is removed."""
    UNREADABLE = auto()
    """An option that Keyrail does not know."""


_LONGEST = 2**63 - 1
_DIGITS = 20
_OPTIONS = {
    b"EX": (1000, False),
    b"PX": (1, False),
    b"EXAT": (1000, True),
    b"PXAT": (1, True),
}
OPTIONS = tuple(_OPTIONS)
"""The options that state a lifetime, in capitals."""
_UNSTATED = {"KEEPTTL": {b"KEEPTTL": Unstated.KEEPS}, "PERSIST": {b"PERSIST": Unstated.PERSISTS}}
_OTHER_OPTIONS = {b"NX": 0, b"XX": 0, b"GET": 0, b"IFEQ": 1, b"IFNE": 1, b"IFDEQ": 1, b"IFDNE": 1}
"""The options of SET and MSETEX that do not affect the lifetime, and how many arguments each takes."""
_STATES = {row.name: row.expiry for row in ROWS.values() if row.expiry is not None}

RESTORES = frozenset(name for name, expiry in _STATES.items() if expiry == "restore")

WITH_TTL = {row.name: row.ttl_with for row in ROWS.values() if row.ttl_with}
"""Commands that another command can replace which can state a lifetime: the name of that command."""


@dataclass(frozen=True, slots=True)
class StatedExpiry:
    """Argument `index` states a lifetime, in units of `scale` milliseconds; if `moment`, it is a point in time."""

    index: int
    scale: int
    moment: bool

    def milliseconds(self, argv: Sequence[bytes], now: float) -> int | None:
        """The lifetime from `now` (seconds since the epoch); None if Redis refuses it or deletes the key."""
        text = argv[self.index] if self.index < len(argv) else b""
        if not text.isdigit() or len(text) > _DIGITS or (text[:1] == b"0" and len(text) > 1):
            return None
        end = int(text) * self.scale
        today = round(now * 1000)
        if end == 0 or end > _LONGEST or (not self.moment and end + today > _LONGEST):
            return None
        left = end - today if self.moment else end
        return left if left > 0 else None

    def number(self, milliseconds: int, now: float, *, up: bool) -> bytes:
        """A lifetime in the form of this argument, rounded up or down to its unit."""
        end = milliseconds + round(now * 1000) if self.moment else milliseconds
        return b"%d" % (-(-end // self.scale) if up else end // self.scale)


def states_expiry(spec: Spec) -> bool:
    """Whether the command can state a lifetime."""
    return spec.name in _STATES


def persists(spec: Spec) -> bool:
    """Whether the command only removes a TTL (PERSIST)."""
    return _STATES.get(spec.name) == "persist"


def may_persist(spec: Spec) -> bool:
    """Whether an option of the command removes a TTL (GETEX)."""
    expiry = _STATES.get(spec.name)
    return isinstance(expiry, ExpiryOptions) and expiry.unstated == "PERSIST"


def may_omit_expiry(spec: Spec) -> bool:
    """Whether the command creates keys and can state their lifetime, but does not have to."""
    if creation_of(spec) is None:
        return False
    expiry = _STATES.get(spec.name)
    return expiry == "restore" or isinstance(expiry, ExpiryOptions)


class PlainForm(NamedTuple):
    """A request of `argc` arguments with a relative lifetime in argument `number_at`, in units of `scale` milliseconds.
    Argument `word_at` is `word`, unless `word_at` is 0."""

    argc: int
    number_at: int
    scale: int
    word: bytes = b""
    word_at: int = 0


def plain_forms(spec: Spec) -> tuple[PlainForm, ...]:
    """The usual forms of the command that state a lifetime; it may have others."""
    expiry = _STATES.get(spec.name)
    if isinstance(expiry, ExpiryOptions) and not expiry.behind_pairs:
        at = expiry.first
        forms = ((word, scale) for word, (scale, moment) in _OPTIONS.items() if not moment)
        return tuple(PlainForm(at + 2, at + 1, scale, word, at) for word, scale in forms)
    if not isinstance(expiry, ExpiryArgument) or expiry.moment:
        return ()
    lengths = range(abs(spec.arity), abs(spec.arity) + (2 if spec.arity < 0 else 1))
    return tuple(PlainForm(argc, expiry.argument, expiry.scale) for argc in lengths)


def read_expiry(command: Command) -> StatedExpiry | Unstated:
    """The lifetime that a command states, if it can. The command must have a number of arguments that Redis accepts."""
    expiry, argv = _STATES[command.spec.name], command.argv
    if isinstance(expiry, ExpiryArgument):
        return StatedExpiry(*expiry)
    if isinstance(expiry, str):
        return _read_restore(argv) if expiry == "restore" else Unstated.PERSISTS
    first = expiry.first
    if expiry.behind_pairs:
        count = argv[1]
        if not count.isdigit() or len(count) > _DIGITS or first + 2 * int(count) > len(argv):
            return Unstated.UNREADABLE
        first += 2 * int(count)
    return _read_options(argv, first, _UNSTATED[expiry.unstated])


def _read_options(argv: Sequence[bytes], first: int, unstated: dict[bytes, Unstated]) -> StatedExpiry | Unstated:
    # Redis accepts one kind of option about the TTL, and accepts it repeatedly: the last one counts.
    said: StatedExpiry | Unstated = Unstated.NOTHING
    i = first
    while i < len(argv):
        option = word_of(argv[i])
        if option in _OPTIONS:
            said = StatedExpiry(i + 1, *_OPTIONS[option])
            i += 2
        elif option in unstated:
            said = unstated[option]
            i += 1
        elif option in _OTHER_OPTIONS:
            i += 1 + _OTHER_OPTIONS[option]
        else:
            return said if isinstance(said, StatedExpiry) else Unstated.UNREADABLE
    return said


def _read_restore(argv: Sequence[bytes]) -> StatedExpiry | Unstated:
    if argv[2] == b"0":
        return Unstated.NOTHING
    options = [word_of(argument) for argument in argv[4:]]
    return StatedExpiry(2, 1, b"ABSTTL" in options)


_TYPES_OF_DUMPS = {
    "string": (0,),
    "list": (1, 10, 14, 18),
    "set": (2, 11, 20),
    "zset": (3, 5, 12, 17),
    "hash": (4, 9, 13, 16, 22, 23, 24, 25),
    "stream": (15, 19, 21),
    "other": (6, 7),
}
_TYPE_OF_DUMP = {number: name for name, numbers in _TYPES_OF_DUMPS.items() for number in numbers}


def dumped_type(payload: bytes) -> str | None:
    """The type of the value in a payload of DUMP, by its first byte; None for an unknown type."""
    return _TYPE_OF_DUMP.get(payload[0]) if payload else None
