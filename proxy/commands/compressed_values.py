"""What each command means for values that are stored compressed: one decision for each command that may touch a string
or a hash.

Tests fail for a command of the table without a decision. A command that only an engine knows has none, and is refused
for keys with compressed values, unless all its keys are of other types.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

from proxy.commands.command import Command
from proxy.commands.key_types import key_types_of
from proxy.commands.spec import Spec
from proxy.commands.words import word_of


class ReplyValues(Enum):
    """Where values stand in a reply that is no error."""

    NONE = "nowhere"
    ONE = "it is one"
    ALL = "all elements of the array"
    PAIRS = "the second of each pair: of an array, of an array of pairs, or of a map"
    PAGE = "the pairs in the second element of the array"


class Touches(NamedTuple):
    """The values in the request are compressed, if it `writes` some, and those in the reply decompressed."""

    writes: bool = False
    reply: ReplyValues = ReplyValues.NONE


class About(NamedTuple):
    """It is about the bytes of one value, their number or a `range` of them. It is answered from the plain value, which
    Keyrail reads with the command `reads` in its place; so many of its `arguments` stay."""

    reads: str
    arguments: int
    range: bool = False


class Special(Enum):
    """What depends on the arguments."""

    MOVES = "the value of one key becomes that of another key, as it is stored"
    SORTS = "it may look up values of other keys, or sort by them"
    RUNS = "only the script knows what it reads and writes"


Decision: TypeAlias = Touches | About | Special | str
"""A text says why the command is refused."""

UNTOUCHED = Touches()
"""No bytes of a value are in it or its reply, or those are carried as they are stored."""
_WRITES = Touches(writes=True)
_READS = Touches(reply=ReplyValues.ONE)
_READS_ALL = Touches(reply=ReplyValues.ALL)

_TOUCHES = {
    _WRITES: "MSET MSETEX MSETNX PSETEX SETEX SETNX HMSET HSET HSETEX HSETNX",
    Touches(writes=True, reply=ReplyValues.ONE): "GETSET SET",
    _READS: "GET GETDEL GETEX HGET",
    _READS_ALL: "MGET HGETDEL HGETEX HMGET HVALS",
    Touches(reply=ReplyValues.PAIRS): "HGETALL HRANDFIELD",
    Touches(reply=ReplyValues.PAGE): "HSCAN",
    # A compressed value is no number, and no plain number is ever compressed: both answer the same error.
    UNTOUCHED: """
        DECR DECRBY INCR INCRBY INCRBYFLOAT HINCRBY HINCRBYFLOAT
        DEL EXISTS EXPIRE EXPIREAT EXPIRETIME MEMORY|USAGE MOVE OBJECT|ENCODING OBJECT|FREQ OBJECT|IDLETIME
        OBJECT|REFCOUNT PERSIST PEXPIRE PEXPIREAT PEXPIRETIME PTTL TOUCH TTL TYPE UNLINK WATCH
        DUMP MIGRATE RESTORE RESTORE-ASKING
        HDEL HEXISTS HEXPIRE HEXPIREAT HEXPIRETIME HKEYS HLEN HPERSIST HPEXPIRE HPEXPIREAT HPEXPIRETIME HPTTL HTTL
        """,
}
_ABOUT = {
    About("GET", 2): "STRLEN",
    About("GET", 2, range=True): "GETRANGE SUBSTR",
    About("HGET", 3): "HSTRLEN",
}
TAKING = frozenset({"GETDEL", "GETSET", "HGETDEL", "SET"})
"""Commands whose reply has the value that they take out of Redis: nobody can read it again."""
READ_INSTEAD = frozenset(about.reads for about in _ABOUT)
"""The commands with which Keyrail reads plain values."""
_SPECIAL = {
    Special.MOVES: "COPY RENAME RENAMENX",
    Special.SORTS: "SORT SORT_RO",
    Special.RUNS: "EVAL EVALSHA EVALSHA_RO EVAL_RO FCALL FCALL_RO",
}
_COMPARES = "it compares the plain value, which Redis does not have"
_REFUSED = {
    "it changes a part of the plain value, which Redis does not have": "APPEND SETRANGE",
    "it is about bits of the plain value, which Redis does not have": (
        "BITCOUNT BITFIELD BITFIELD_RO BITOP BITPOS GETBIT SETBIT"
    ),
    _COMPARES: "DELEX DELIFEQ DIGEST LCS STRALGO",
    "it is about a HyperLogLog, which must not be compressed": "PFADD PFCOUNT PFDEBUG PFMERGE",
    "nobody has tried it with compressed values": "HIMPORT|SET INCREX",
}
UNDECIDED = "this Keyrail does not know whether it reads or writes bytes of a value"

DECISIONS: dict[str, Decision] = {
    **{name: touches for touches, names in _TOUCHES.items() for name in names.split()},
    **{name: about for about, names in _ABOUT.items() for name in names.split()},
    **{name: special for special, names in _SPECIAL.items() for name in names.split()},
    **{name: why for why, names in _REFUSED.items() for name in names.split()},
}
"""By the name of a command."""
TWICE = sum(len(names.split()) for group in (_TOUCHES, _ABOUT, _SPECIAL, _REFUSED) for names in group.values()) - len(
    DECISIONS
)
"""How many commands stand above more than once: none, or the last place would win in silence."""

_COMPARING = frozenset({b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"})
"""Options of SET that compare the plain value."""
_REPLY_NEEDS = {"SET": b"GET", "HRANDFIELD": b"WITHVALUES"}
"""The option without which a reply has no values."""
OPTIONS = {"SET": (3, frozenset({(b"Gg", b"Ee"), (b"Ii", b"Ff")}))}
"""The first argument that may be an option, and the first two bytes of all options with which the command replies with
a value or is refused: without them, it does neither."""
_REPLY_LACKS = {"HSCAN": b"NOVALUES"}
"""The option with which it has none."""
_COMPRESSED_TYPES = frozenset({"string", "hash"})


def decision_of(spec: Spec) -> Decision | None:
    """What the command means for compressed values; None where nothing is decided about it."""
    found = DECISIONS.get(spec.name)
    if found is None and spec.id and (not spec.may_have_keys or _is_about_others(spec)):
        return UNTOUCHED
    return found


def values_in_every_reply(spec: Spec) -> ReplyValues:
    """Where values stand in the replies to all requests of this command; NONE if that depends on the request, or there
    are none."""
    decision = decision_of(spec)
    if not isinstance(decision, Touches) or spec.name in _REPLY_NEEDS or spec.name in _REPLY_LACKS:
        return ReplyValues.NONE
    one_key = len(spec.key_specs) == 1 and (spec.key_specs[0].find, spec.key_specs[0].last) == ("range", 0)
    return decision.reply if one_key else ReplyValues.NONE


def values_in_reply(command: Command, touches: Touches) -> ReplyValues | str:
    """Where values stand in the reply to this request, or why the request is refused."""
    needed, absent = _REPLY_NEEDS.get(command.spec.name), _REPLY_LACKS.get(command.spec.name)
    if needed is None and absent is None:
        return touches.reply
    words = _options(command.argv[3 if touches.writes else 2 :])
    if touches.writes and words & _COMPARING:
        return _COMPARES
    return touches.reply if (needed is None or needed in words) and absent not in words else ReplyValues.NONE


def _options(arguments: Sequence[bytes]) -> set[bytes]:
    # Not the pattern of HSCAN's MATCH, which may read as an option.
    found, left = set(), iter(arguments)
    for argument in left:
        word = word_of(argument)
        found.add(word)
        if word == b"MATCH":
            next(left, None)
    return found


def _is_about_others(spec: Spec) -> bool:
    types = key_types_of(spec)
    return bool(types.read and types.written) and not (types.read | types.written) & _COMPRESSED_TYPES
