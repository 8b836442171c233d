"""The types of keys that a command works on, in the words of TYPE.

Redis answers WRONGTYPE if the key has another type. It does not if the key does not exist, or if the command overwrites
any key (SET, and every STORE). An engine tells the types by ACL categories. If a command has no category of a type, or
takes several types, its row tells them.
"""

from typing import NamedTuple

from proxy.commands.rows import ROWS
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
"""Keyrail has its own names for the types of modules: those that TYPE shows (ReJSON-RL, MBbloom--) are no words."""


class KeyTypes(NamedTuple):
    """The types that a command's keys may have: of the keys that it reads and of those that it writes. Empty: any."""

    read: frozenset[str]
    written: frozenset[str]


_ANY = KeyTypes(frozenset(), frozenset())


def _read(stated: str) -> KeyTypes:
    if stated == "any":
        return _ANY
    read, different, written = stated.partition(">")
    return KeyTypes(frozenset(read.split()), frozenset((written if different else read).split()))


_STATED = {row.name: _read(row.types) for row in ROWS.values() if row.types}
_NAMED = (key_type for types in _STATED.values() for key_type in sorted(types.read))

KEY_TYPES = tuple(dict.fromkeys((*_BY_CATEGORY.values(), *_NAMED, *_BY_PREFIX.values())))
"""Every type of keys, those of Redis itself first."""


def key_types_of(spec: Spec) -> KeyTypes:
    """The types that a command works on; any type if nothing tells them."""
    stated = _STATED.get(spec.name)
    if stated is not None:
        return stated
    key_type = _type_of(spec.name, spec.categories)
    return _ANY if key_type is None else KeyTypes(frozenset((key_type,)), frozenset((key_type,)))


def _type_of(name: str, categories: frozenset[str]) -> str | None:
    for prefix, key_type in _BY_PREFIX.items():
        if name.startswith(prefix):
            return key_type
    return next((_BY_CATEGORY[category] for category in categories if category in _BY_CATEGORY), None)


_MODULES = frozenset(_BY_PREFIX.values())
_STORED = {
    "ReJSON-RL": "json",
    "MBbloom--": "bloom",
    "bloomfltr": "bloom",  # valkey-bloom
    "MBbloomCF": "cuckoo",
    "CMSk-TYPE": "count-min",
    "TopK-TYPE": "top-k",
    "TDIS-TYPE": "t-digest",
    "TSDB-TYPE": "time-series",
    "trietype0": "suggestions",
}
"""The types of modules by TYPE's words for them, as each module names them to RedisModule_CreateDataType."""


def stored_types(word: str) -> frozenset[str]:
    """The types of a stored key that TYPE shows by this word: one, or all of modules if Keyrail does not know it."""
    known = _STORED.get(word, word)
    return frozenset((known,)) if known in KEY_TYPES else _MODULES


def type_is_decided(name: str, categories: frozenset[str]) -> bool:
    """Whether a command's row, name or categories tell its types. They must for each command that has keys."""
    return name in _STATED or _type_of(name, categories) is not None
