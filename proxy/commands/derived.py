"""Commands that write a collection computed from others, and the greatest number of members of the result.

No argument says how large the result is, but the sizes of its sources bound it: a union has at most the members of all
sources, an intersection at most those of the smallest, any other result at most those of the first. A command that asks
for a part (LIMIT, COUNT, ranks) stores at most that part. SORT stores one element for each GET.
"""

from collections.abc import Sequence

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.sort_patterns import SORTS, columns_of
from proxy.commands.spans import elements_asked

DERIVED = {row.name: row.derives for row in ROWS.values() if row.derives is not None}
"""By the command's name."""


def sources_of(command: Command) -> tuple[bytes, ...]:
    """The source keys of the result, each once; no keys if the command stores nothing."""
    if DERIVED[command.spec.name].takes_over:
        return tuple(key.name for key in command.keys[:1])
    if not any(key.write for key in command.keys):
        return ()
    return tuple(dict.fromkeys(key.name for key in command.keys if not key.write))


def destinations_of(command: Command) -> tuple[bytes, ...]:
    """The keys that get the result."""
    if DERIVED[command.spec.name].takes_over:
        return tuple(key.name for key in command.keys[-1:])  # MOVE keeps the name, in another database
    return tuple(key.name for key in command.keys if key.write)


def most_derived(command: Command, sizes: Sequence[int]) -> int:
    """The greatest number of members of the result, by the sizes of the sources."""
    most = DERIVED[command.spec.name].bound(sizes)
    asked = elements_asked(command)
    if asked is not None:
        most = min(most, asked)
    return most * columns_of(command) if command.spec.name in SORTS else most
