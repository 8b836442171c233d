"""Which types of keys a command is for, in the words of TYPE.

Redis answers WRONGTYPE where a key of another type is there, and nothing at all where there is none yet, or where the
command overwrites whatever is there (SET, and every STORE). An engine tells it by ACL categories; what has none, and
what takes more than one type, is listed here by hand.
"""

from typing import NamedTuple

from proxy.commands.spec import Spec

_BY_CATEGORY = {
    "string": "string",
    "bitmap": "string",
    "hyperloglog": "string",
    "hash": "hash",
    "list": "list",
    "set": "set",
    "sortedset": "zset",
    "geo": "zset",
    "stream": "stream",
}

_BY_PREFIX = {
    "JSON.": "json",
    "BF.": "bloom",
    "CF.": "cuckoo",
    "CMS.": "count-min",
    "TOPK.": "top-k",
    "TDIGEST.": "t-digest",
    "TS.": "time-series",
    "FT.SUG": "suggestions",
}
"""Modules' types have names of ours: those that TYPE shows (ReJSON-RL, MBbloom--) are no words."""

_BY_NAME = {
    "string": "DIGEST INCREX",
    "hash": "HIMPORT|SET",
    "list": "BLMOVEM LMOVEM",
    "set": "SDIFFCARD SUNIONCARD",
    "stream": "XACKDEL XCFGSET XDELEX XIDMPRECORD XNACK",
    "array": """
        ARCOUNT ARDEL ARDELRANGE ARGET ARGETRANGE ARGREP ARINFO ARINSERT ARLASTITEMS ARLEN ARMGET ARMSET ARNEXT AROP
        ARRING ARSCAN ARSEEK ARSET""",
    "vectorset": """
        VADD VCARD VDIM VEMB VGETATTR VINFO VISMEMBER VLINKS VRANDMEMBER VRANGE VREM VSETATTR VSIM""",
}
_NAMED = {name: key_type for key_type, names in _BY_NAME.items() for name in names.split()}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FOR_ANY = _names("""
    COPY DEL DELEX DUMP EVAL EVALSHA EVALSHA_RO EVAL_RO EXISTS EXPIRE EXPIREAT EXPIRETIME FCALL FCALL_RO MEMORY|USAGE
    MIGRATE MOVE OBJECT|ENCODING OBJECT|FREQ OBJECT|IDLETIME OBJECT|REFCOUNT PERSIST PEXPIRE PEXPIREAT PEXPIRETIME
    PTTL RENAME RENAMENX RESTORE RESTORE-ASKING TOUCH TTL TYPE UNLINK WATCH""")

KEY_TYPES = tuple(dict.fromkeys((*_BY_CATEGORY.values(), "array", "vectorset", *_BY_PREFIX.values())))
"""Every type that a key can have, Redis's own first."""


class KeyTypes(NamedTuple):
    """The types that a command's keys may have: those that it reads, those that it writes. Empty: any."""

    read: frozenset[str]
    written: frozenset[str]


_ANY = KeyTypes(frozenset(), frozenset())


def _read_and_written(read: str, written: str) -> KeyTypes:
    return KeyTypes(_names(read), _names(written))


_SORTED = _read_and_written("list set zset", "list")
_SETS_COUNT_TOO = _read_and_written("zset set", "zset")
_DIFFERENT: dict[str, KeyTypes] = {
    "SORT": _SORTED,
    "SORT_RO": _SORTED,
    **dict.fromkeys(_names("ZUNION ZINTER ZDIFF ZINTERCARD ZUNIONSTORE ZINTERSTORE ZDIFFSTORE"), _SETS_COUNT_TOO),
}
"""Commands that read one type and write another, or read several."""


def key_types_of(spec: Spec) -> KeyTypes:
    """The types that a command is for; any, of a command that no list knows."""
    if spec.name in _DIFFERENT:
        return _DIFFERENT[spec.name]
    key_type = _type_of(spec.name, spec.categories)
    return _ANY if key_type is None else KeyTypes(frozenset((key_type,)), frozenset((key_type,)))


def _type_of(name: str, categories: frozenset[str]) -> str | None:
    if name in _NAMED:
        return _NAMED[name]
    for prefix, key_type in _BY_PREFIX.items():
        if name.startswith(prefix):
            return key_type
    return next((_BY_CATEGORY[category] for category in categories if category in _BY_CATEGORY), None)


def type_is_decided(name: str, categories: frozenset[str]) -> bool:
    """Whether the lists above or its categories tell the types of a command: they must, for each that has keys."""
    return name in _FOR_ANY or name in _DIFFERENT or _type_of(name, categories) is not None


def decided_names() -> frozenset[str]:
    """Every command that the lists above name: each must exist in the table."""
    return _FOR_ANY | _NAMED.keys() | _DIFFERENT.keys()
