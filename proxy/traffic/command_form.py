"""What of a command may be kept: its *exemplar* and its *form*, neither with a value.

    SET session:77 <59 bytes> EX 300 NX     the exemplar: names, options and their numbers as they are, keys as the
                                            policy's ``traffic.redact`` allows, everything else as its length
    keys=1 data=1 largest=64 EX=512 NX      the form: what rules judge by, besides the name of the key; numbers are
                                            rounded up to powers of two, so that there are few forms

A number is shown behind an option that takes one, and where the command's row says that it is no data. Members, fields,
messages, texts and arguments of scripts are data, as are numbers at all other places: one of them may be the number of
a bank account.
"""

from proxy.commands.command import Command
from proxy.commands.rows import ALL
from proxy.commands.values import values_of, whole_number
from proxy.commands.words import LONGEST, word_of
from proxy.traffic.evidence_rows import Exemplar
from proxy.traffic.redaction import Redaction

_MOST_WORDS = 24
"""Words of an exemplar; more are left out, and the last word says how many."""
_MOST_PARTS = 12

_FLAGS = frozenset(
    b"NX XX GT LT CH INCR GET KEEPTTL PERSIST WITHSCORES WITHVALUES WITHCOORD WITHDIST WITHHASH BYSCORE BYLEX REV ASC "
    b"DESC ALPHA STORE STOREDIST AGGREGATE SUM MIN MAX WEIGHTS BEFORE AFTER LEFT RIGHT ASYNC SYNC REPLACE COPY ABSTTL "
    b"NOMKSTREAM KEEPREF DELREF ACKED FORCE JUSTID NOACK STREAMS GROUP BYRADIUS BYBOX FROMMEMBER FROMLONLAT ANY "
    b"WITHMATCHLEN IDX BYTE BIT AND OR XOR NOT OVERFLOW WRAP SAT FAIL LIB-NAME LIB-VER NOVALUES NOSCORES FNX FXX "
    b"KEEPTTL ALL DB AUTH SETNAME NO ONE REWRITE RESETSTAT".split()
)
_BEFORE_NUMBERS = frozenset(
    b"EX PX EXAT PXAT COUNT LIMIT MAXLEN IDLE TIME RETRYCOUNT BLOCK FREQ IDLETIME RANK TIMEOUT FIELDS".split()
)
"""Options that a number follows."""
_TYPES = frozenset(b"STRING LIST SET ZSET HASH STREAM M KM FT MI".split())
_BEFORE_TYPES = frozenset({b"TYPE"})
_OPTIONS = _FLAGS | _BEFORE_NUMBERS | _BEFORE_TYPES
_NUMBERS = {row.name: row.numbers for row in ALL if row.numbers}


def exemplar(command: Command, redaction: Redaction, at: float, why: str = "") -> Exemplar:
    """The exemplar of a command that came at `at` (seconds since the epoch)."""
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
    return Exemplar(tuple(words), at, why)


def form_of(command: Command) -> str:
    """The form of a command; equal for all commands that rules about forms cannot tell apart."""
    keys = {key.index for key in command.known_keys}
    shown = _shown(command)
    words = len(command.spec.name.split("|"))
    data = [i for i in range(words, len(command.argv)) if i not in keys and i not in shown]
    parts = [f"keys={_up(len(keys))}"] if keys else []
    if data:
        parts += [f"data={_up(len(data))}", f"largest={_up(max(map(command.length, data)))}"]
    option = ""
    for index in sorted(shown.keys() - set(range(words))):
        number = whole_number(command.argv[index])
        if number is None:
            parts.append(shown[index])
            option = shown[index]
        elif option and parts[-1] == option:
            parts[-1] = f"{option}={_up(number)}"
        else:
            parts.append(f"{index}:{_up(number)}")
    return " ".join(parts[:_MOST_PARTS])


def _up(number: int) -> int:
    # The next power of two; small and negative numbers have a meaning of their own.
    return number if number <= 2 else 1 << (number - 1).bit_length()


def _shown(command: Command) -> dict[int, str]:
    # The words of the name, and the options and numbers that are no data, by index.
    argv = command.argv
    size = len(argv)
    names = command.spec.name.split("|")
    if not command.spec.name:
        return {0: command.name}
    shown = dict(enumerate(names))
    values = {value.index for value in values_of(command)}
    keys = {key.index for key in command.known_keys}
    numbers = {place % size for place in _NUMBERS.get(command.spec.name, ()) if -size < place < size}
    before = b""
    for index in range(len(names), min(size, 2 * _MOST_WORDS)):
        argument, word = argv[index], b""
        if index not in values and index not in keys and len(argument) < LONGEST:
            word = word_of(argument)
            if (
                word in _FLAGS
                or word in _BEFORE_NUMBERS
                or word in _BEFORE_TYPES
                or (before in _BEFORE_TYPES and word in _TYPES)
            ):
                shown[index] = word.decode()
            elif (index in numbers or before in _BEFORE_NUMBERS) and whole_number(argument) is not None:
                shown[index] = argument.decode()
        before = word
    return shown
