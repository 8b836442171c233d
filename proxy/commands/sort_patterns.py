"""The keys that SORT looks up beside its own: ``SORT k BY weight:* GET page:*->title``.

Each element of the list replaces the first ``*`` of the pattern. Without a ``*``, SORT looks up nothing. So the command
tells only how the names of those keys begin.
"""

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.words import word_of

SORTS = frozenset(row.name for row in ROWS.values() if row.key_syntax == "sort")
_STEPS = {b"LIMIT": 3, b"STORE": 2, b"BY": 2, b"GET": 2}


def beginnings_of(command: Command) -> list[tuple[int, bytes]]:
    """The arguments that are patterns of BY and GET, and the prefix of the keys that each looks up."""
    if command.spec.name not in SORTS:
        return []
    argv, found, i = command.argv, [], 2
    while i < len(argv):
        word = word_of(argv[i])
        pattern = argv[i + 1] if word in (b"BY", b"GET") and i + 1 < len(argv) else b""
        streamed = i + 1 < len(argv) and command.length(i + 1) != len(argv[i + 1])
        if b"*" in pattern or (streamed and word in (b"BY", b"GET")):
            found.append((i + 1, pattern.partition(b"*")[0]))
        i += _STEPS.get(word, 1)
    return found


def columns_of(command: Command) -> int:
    """How many values SORT returns for each element: one for each GET; without GET, the element itself."""
    argv, count, i = command.argv, 0, 2
    while i < len(argv):
        word = word_of(argv[i])
        count += word == b"GET"
        i += _STEPS.get(word, 1)
    return max(1, count)
