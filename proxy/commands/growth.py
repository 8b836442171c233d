"""Which commands make a collection grow, which of their keys it is, and which command returns its size.

``values`` has the commands that write members. Their rows say which collection they write to, and which commands move a
member from one key to another.
"""

from typing import NamedTuple

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.values import ENTRY_OPTIONS, members_of, whole_number
from proxy.commands.words import word_of

_GROWS = {row.name: row.grows for row in ROWS.values() if row.grows is not None}
_ENTRIES = "XLEN"

GROWING = frozenset(_GROWS)
"""Commands that make a collection grow."""

TOLD = frozenset(name for name, grows in _GROWS.items() if grows.told)
"""The commands that reply with the new length of the list (0 or -1 if nothing was written)."""

MEASURED = {row.name: row.measures for row in ROWS.values() if row.measures is not None}
"""Commands that return a collection's size, and what they measure."""

PUSHES = {name: grows.pushes for name, grows in _GROWS.items() if grows.pushes is not None}
"""The commands that push, and at which end."""


class Growth(NamedTuple):
    """A collection that a command makes grow: its key, the command for its size, and the most members that it gains."""

    key: bytes
    measure: str
    members: int


def growth_of(command: Command) -> Growth | None:
    """The collection that the command makes grow; None if the command has too few keys."""
    grows = _GROWS.get(command.spec.name)
    place = 1 if grows is not None and grows.moves else 0
    if grows is None or len(command.keys) <= place:
        return None
    # An entry of a stream has several fields, but counts as one.
    members = 1 if grows.measure == _ENTRIES else max(1, members_of(command))
    return Growth(command.keys[place].name, grows.measure, members)


def adds_entries(name: str) -> bool:
    """Whether the command makes a stream grow."""
    return name in _GROWS and _GROWS[name].measure == _ENTRIES


def kept_by_trimming(command: Command) -> int | None:
    """How many entries an XADD leaves in its stream by trimming it; None if it may leave any number.

    ``MAXLEN ~`` trims whole nodes of the stream, so it leaves up to one node more (100 entries by default). With a
    LIMIT it may never trim: it does not remove a node with more entries than the limit.
    """
    if not adds_entries(command.spec.name):
        return None
    argv, kept, i = command.argv, None, 2
    while i < len(argv):
        word = word_of(argv[i])
        width = ENTRY_OPTIONS.get(word, 0)
        if word in (b"MAXLEN", b"MINID"):
            exact = word_of(b"".join(argv[i + 1 : i + 2])) not in (b"=", b"~")
            width = 2 if exact else 3
            kept = whole_number(b"".join(argv[i + width - 1 : i + width])) if word == b"MAXLEN" else None
        elif word == b"LIMIT" and whole_number(b"".join(argv[i + 1 : i + 2])) != 0:
            return None
        if not width:
            break
        i += width
    return kept if kept is None or kept >= 0 else None
