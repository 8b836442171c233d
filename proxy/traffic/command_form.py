"""What of a command may be kept: its *exemplar* and its *form*, neither with a value.

    SET session:77 <59 bytes> EX 300 NX     the exemplar: names, options and their numbers as they are, keys as the
                                            policy's ``traffic.redact`` allows, everything else as its length
    keys=1 data=1 largest=64 EX=500 NX      the form: what rules judge by, besides the name of the key; numbers are
                                            rounded up (``proxy.commands.buckets``), so that there are few forms

Of a form are: the number of keys (``keys=?`` and the number of arguments if it is unknown which are keys), the number
of the other arguments that are data and the size of the largest, the size of the largest value if it is another one,
the members of a write, the elements or bytes that a read asks for (``asks=all``: up to the end), ``unknown`` for an
unknown command, ``arity`` for a number of arguments that Redis refuses; then options and numbers. ``…`` ends a form
that is cut.

A number is shown behind an option that takes one, and where the command's row says that it is no data. Members, fields,
messages, texts and arguments of scripts are data, as are numbers at all other places: one of them may be the number of
a bank account.
"""

from collections.abc import Mapping

from proxy.commands.buckets import bucket
from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.rows import ALL
from proxy.commands.spans import BYTE_SPANS, ENDLESS, SCANS, SPANS, bytes_asked, elements_asked, scan_count
from proxy.commands.values import Value, brings_values, members_of, values_of, whole_number
from proxy.commands.words import LONGEST, word_of
from proxy.traffic.evidence_rows import Exemplar
from proxy.traffic.redaction import Redaction

_MOST_WORDS = 24
"""Words of an exemplar; more are left out, and the last word says how many."""
_MOST_PARTS = 14
CUT = "…"
"""The end of a form with more parts."""
_LAST_WORDS = 8
"""Words at the end of a long command that are looked at for options, as those at its beginning."""

_FLAGS = frozenset(
    b"NX XX GT LT CH INCR GET KEEPTTL PERSIST WITHSCORES WITHVALUES WITHCOORD WITHDIST WITHHASH BYSCORE BYLEX REV ASC "
    b"DESC ALPHA STORE STOREDIST AGGREGATE SUM MIN MAX WEIGHTS BEFORE AFTER LEFT RIGHT ASYNC SYNC REPLACE COPY ABSTTL "
    b"NOMKSTREAM KEEPREF DELREF ACKED FORCE JUSTID NOACK STREAMS GROUP BYRADIUS BYBOX FROMMEMBER FROMLONLAT ANY "
    b"WITHMATCHLEN IDX BYTE BIT AND OR XOR NOT OVERFLOW WRAP SAT FAIL LIB-NAME LIB-VER NOVALUES NOSCORES FNX FXX "
    b"ALL AUTH SETNAME NO ONE REWRITE RESETSTAT MINID IFEQ IFNE IFDEQ IFDNE".split()
)
_BEFORE_NUMBERS = frozenset(
    b"EX PX EXAT PXAT COUNT LIMIT MAXLEN IDLE TIME RETRYCOUNT BLOCK FREQ IDLETIME RANK TIMEOUT FIELDS DB".split()
)
"""Options that a number follows."""
_TYPES = frozenset(b"STRING LIST SET ZSET HASH STREAM M KM FT MI".split())
_BEFORE_TYPES = frozenset({b"TYPE"})
_TRIMMING = dict.fromkeys((b"MAXLEN", b"MINID"), frozenset((b"=", b"~")))
"""What may stand between these options and their number."""
_ASKING = SPANS | BYTE_SPANS | frozenset(SCANS)
_OPTIONS_FIRST = frozenset({"XADD", "ZADD", "GEOADD", "HSETEX"})
"""Commands that have options in front of what they store."""
_FIRST_OPTION = 2
_OPTIONS = _FLAGS | _BEFORE_NUMBERS | _BEFORE_TYPES
_NUMBERS = {row.name: row.numbers for row in ALL if row.numbers}
_ONLY_DATA = frozenset(row.name for row in ALL if row.only_data)


def exemplar(command: Command, redaction: Redaction, at: float, why: str = "", prefix: bytes = b"") -> Exemplar:
    """The exemplar of a command that came at `at` (seconds since the epoch), from a client with this prefix."""
    argv, keys = command.argv, {key.index: key.name for key in command.known_keys}
    shown = _shown(command)
    words = []
    for index in range(min(len(argv), _MOST_WORDS)):
        if index in keys:
            words.append(redaction.of(keys[index]))
        elif index in shown:
            words.append(shown[index])
        else:
            words.append(f"<{command.length(index)} bytes>")
    if len(argv) > _MOST_WORDS:
        words.append(f"<{len(argv) - _MOST_WORDS} more>")
    return Exemplar(tuple(words), at, why, prefix.decode("ascii"))


def form_of(command: Command) -> str:
    """The form of a command; equal for all commands that rules about forms cannot tell apart."""
    shown = _shown(command)
    parts = _sizes(command, shown)
    option = ""
    cursor = {SCANS[command.spec.name] - 1} if command.spec.name in SCANS else set()
    for index in sorted(shown.keys() - set(range(_names(command))) - cursor):
        number = whole_number(command.argv[index])
        if number is None:
            parts.append(shown[index])
            option = shown[index]
        elif option and parts[-1] == option:
            parts[-1] = f"{option}={bucket(number)}"
        else:
            parts.append(f"{index}:{bucket(number)}")
    return " ".join(parts if len(parts) <= _MOST_PARTS else [*parts[:_MOST_PARTS], CUT])


def parts_of(form: str) -> dict[str, int | None]:
    """The parts of a form, by name or by the index of their argument, with the numbers of those that have one."""
    found: dict[str, int | None] = {}
    for part in form.split():
        name, _, number = part.partition("=") if "=" in part else part.partition(":")
        found[name] = whole_number(number.encode())
    return found


def _sizes(command: Command, shown: Mapping[int, str]) -> list[str]:
    parts = []
    spec, argc = command.spec, len(command.argv)
    if not spec.id or not spec.takes(argc):
        parts.append("arity" if spec.id else "unknown")
    keys = {key.index for key in command.known_keys}
    if keys:
        parts.append(f"keys={bucket(len(keys))}")
    elif spec.may_have_keys and _keys_are_unknown(command):
        parts.append(f"keys=?{bucket(argc - 1)}")
    data = [index for index in range(_names(command), argc) if index not in keys and index not in shown]
    largest = bucket(max(map(command.length, data), default=0))
    if data:
        parts += [f"data={bucket(len(data))}", f"largest={largest}"]
    if brings_values(spec.name):
        if (value := bucket(max((each.length for each in _values(command)), default=0))) != largest:
            parts.append(f"value={value}")
        if members := members_of(command):
            parts.append(f"members={bucket(members)}")
    if spec.name in _ASKING and (asked := _asked(command)) is not None:
        parts.append(f"asks={'all' if asked >= ENDLESS else bucket(asked)}")
    return parts


def _keys_are_unknown(command: Command) -> bool:
    return not command.known_keys and not command.has_no_keys


def _values(command: Command) -> list[Value]:
    try:
        return values_of(command)
    except KeysUnknownError:
        return []


def _asked(command: Command) -> int | None:
    if command.spec.name in SCANS:
        count = scan_count(command)
        return None if count is None else count[0]
    elements = elements_asked(command)
    return bytes_asked(command) if elements is None else elements


def _names(command: Command) -> int:
    # The words of the command's name, at its beginning.
    return len(command.spec.name.split("|"))


def _shown(command: Command) -> dict[int, str]:
    # The words of the name, and the options and numbers that are no data, by index.
    argv = command.argv
    size = len(argv)
    names = command.spec.name.split("|")
    if not command.spec.name:
        return {0: command.name}
    shown = dict(enumerate(names))
    values = {value.index for value in _values(command)}
    if command.spec.name in _OPTIONS_FIRST:
        values -= _options_before_values(command)
    keys = {key.index for key in command.known_keys}
    numbers = {place % size for place in _NUMBERS.get(command.spec.name, ()) if -size < place < size}
    before = b""
    first, last = range(len(names), min(size, 2 * _MOST_WORDS)), range(max(2 * _MOST_WORDS, size - _LAST_WORDS), size)
    for index in (*first, *last):
        argument, word = argv[index], b""
        if index not in values and index not in keys and len(argument) < LONGEST:
            word = b"" if command.spec.name in _ONLY_DATA else word_of(argument)
            if word in _OPTIONS or (before in _BEFORE_TYPES and word in _TYPES):
                shown[index] = word.decode()
            elif before in _TRIMMING and word in _TRIMMING[before]:
                shown[index] = word.decode()
                word = before
            elif (index in numbers or before in _BEFORE_NUMBERS) and whole_number(argument) is not None:
                shown[index] = argument.decode()
                if before == b"LIMIT":
                    numbers.add(index + 1)  # an offset and a count follow
        before = word
    return shown


def _options_before_values(command: Command) -> set[int]:
    found: set[int] = set()
    before = b""
    for index in range(_FIRST_OPTION, min(len(command.argv), _FIRST_OPTION + _LAST_WORDS)):
        argument = command.argv[index]
        word = word_of(argument[:LONGEST])
        trims = before in _TRIMMING and word in _TRIMMING[before]
        if not trims and word not in _OPTIONS and (before not in _BEFORE_NUMBERS or whole_number(argument) is None):
            break
        found.add(index)
        before = before if trims else word
    return found
