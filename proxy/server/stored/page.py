"""What is asked about the keys of a page, and what the replies say: requests and replies, without a socket.

TYPE, PTTL and MEMORY USAGE leave the access time and the frequency of a key as they are (their look-ups have
LOOKUP_NOTOUCH), unlike those that count members. MEMORY USAGE looks at five members of a large key; with SAMPLES 0 it
would look at all.
"""

import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias

import hiredis

from proxy.compression.frames import HEAD, STRING, read_head
from proxy.rules.stored import StoredKey
from proxy.wire.numbers import read_digits

Command: TypeAlias = tuple[bytes, ...]

MEMBERS_OF = {
    "string": b"STRLEN",
    "hash": b"HLEN",
    "list": b"LLEN",
    "set": b"SCARD",
    "zset": b"ZCARD",
    "stream": b"XLEN",
}
"""The command that counts the members of a key of a type."""
ASKING: Command = (b"ASKING",)
_NOT_NOW = ("LOADING", "BUSY ", "MASTERDOWN", "CLUSTERDOWN")
_MOVES = ("MOVED ", "ASK ", "TRYAGAIN")
FORBIDDEN = ("NOPERM", "ERR unknown command", "ERR unknown subcommand", "ERR Unknown subcommand")


class Missing(Enum):
    """Why nothing is known of a key."""

    GONE = "gone"
    MOVED = "moved"
    ASK = "ask"
    UNREADABLE = "unreadable"


class Details:
    """Asks about keys. ``measures``: MEMORY USAGE is asked, as it is until the server refuses it; ``refusal`` is what
    it says then. ``forbidden``: the user may run TYPE or PTTL for no key at all; the text has the server's error."""

    def __init__(self) -> None:
        self.measures = True
        self.refusal = ""
        self.forbidden = ""

    def commands(self, keys: Iterable[bytes], *, asking: bool = False) -> list[Command]:
        """What to ask about these keys. ``asking``: the node may have their slots only in part."""
        found: list[Command] = []
        for key in keys:
            of_key: list[Command] = [(b"TYPE", key), (b"PTTL", key)]
            if self.measures:
                of_key.append((b"MEMORY", b"USAGE", key))
            found += [each for command in of_key for each in (ASKING, command)] if asking else of_key
        return found

    def read(self, keys: Sequence[bytes], replies: Sequence[Any], *, asking: bool = False) -> list[StoredKey | Missing]:
        """What the replies say of each key."""
        told = replies[1::2] if asking else replies
        each = len(told) // len(keys) if keys else 0
        return [self._read(key, *told[at * each : (at + 1) * each]) for at, key in enumerate(keys)]

    def _read(self, key: bytes, kind: Any, ttl: Any, memory: Any = False) -> StoredKey | Missing:
        for reply in (kind, ttl, memory):
            if has_moved(reply):
                return Missing.MOVED if str(reply).startswith("MOVED") else Missing.ASK
        for command, reply in (("TYPE", kind), ("PTTL", ttl)):
            if isinstance(reply, hiredis.ReplyError):
                if str(reply).startswith(FORBIDDEN) and "permissions to access" not in str(reply):
                    self.forbidden = f"{command}: {reply}"
                return Missing.UNREADABLE
        if isinstance(memory, hiredis.ReplyError):
            self._refused(str(memory))
            memory = False
        if kind == b"none" or ttl == -2 or memory is None:
            return Missing.GONE
        left = None if ttl < 0 else ttl
        return StoredKey(key, kind.decode("utf-8", "replace"), left, None if memory is False else memory)

    def _refused(self, text: str) -> None:
        if text.startswith(FORBIDDEN):
            self.measures = False
        self.refusal = self.refusal or text


_KEYSIZES = re.compile(r"db([0-9]{1,9})_distrib_(strings|lists|sets|zsets|hashes)_(?:sizes|items)")
_TYPES = {"strings": "string", "lists": "list", "sets": "set", "zsets": "zset", "hashes": "hash"}


def keys_by_type(info: Mapping[str, str], databases: Collection[int]) -> dict[str, int]:
    """How many keys of each type there are in these databases, by INFO keysizes (Redis 8); it has no streams."""
    found: dict[str, int] = {}
    for name, value in info.items():
        which = _KEYSIZES.fullmatch(name)
        if which is not None and read_digits(which[1]) in databases:
            counts = (read_digits(each.partition("=")[2]) or 0 for each in value.split(","))
            found[_TYPES[which[2]]] = found.get(_TYPES[which[2]], 0) + sum(counts)
    return found


def size_commands(key: StoredKey, *, members: bool, head: bool) -> list[Command]:
    """What tells the size of a key: its number of ``members``, and of a string with a ``head``, which may be
    compressed, whether it is and how large the plain value is."""
    counting = MEMBERS_OF.get(key.type)
    if counting is None or not (members or head):
        return []
    begins = [(b"GETRANGE", key.name, b"0", b"%d" % (HEAD - 1))] if head else []
    return [(counting, key.name), *begins]


def with_size(key: StoredKey, replies: Sequence[Any]) -> StoredKey:
    """The key with what the replies to ``size_commands`` say."""
    size, *heads = replies
    if not isinstance(size, int):  # its type has changed, or the user may not ask
        return key
    found = next((read_head(each, size, STRING) for each in heads if isinstance(each, bytes)), None)
    if found is None:
        return replace(key, members=size)
    return replace(key, members=found.plain, stored=size, dictionary=found.dictionary)


def has_moved(reply: Any) -> bool:
    """Whether the reply says that the key belongs to another node, or may be there."""
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith(_MOVES)


def with_asking(name: bytes, command: Command, asking: Container[bytes]) -> list[Command]:
    """The command, behind ASKING if the node has the slot of this key only in part."""
    return [ASKING, command] if name in asking else [command]


def without_asking(names: Iterable[bytes], replies: Iterable[Any], asking: Container[bytes]) -> list[Any]:
    """One reply for each of these keys, without those to ASKING."""
    left = iter(replies)
    return [next(left) if name not in asking else (next(left), next(left))[1] for name in names]


def is_momentary(replies: Iterable[Any]) -> bool:
    """Whether a reply says that the server, or its cluster, does not serve now."""
    return any(isinstance(reply, hiredis.ReplyError) and str(reply).startswith(_NOT_NOW) for reply in replies)
