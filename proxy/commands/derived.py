"""Commands that write a whole collection from others: the most members that it can have.

No argument says how large the result is. It is never larger than its sources allow: a union has at most all of their
members, an intersection as many as the smallest of them, anything else as many as the first. A command that asks for a
part (LIMIT, COUNT, ranks) gets no more than that, and SORT stores an element for each GET.
"""

from collections.abc import Sequence

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.sort_patterns import SORTS, columns_of
from proxy.commands.spans import elements_asked

DERIVED = {row.name: row.derives for row in ROWS.values() if row.derives is not None}
"""By the command's name."""


def sources_of(command: Command) -> tuple[bytes, ...]:
    """The source keys of the result, each once; none if the command stores nothing."""
    if DERIVED[command.spec.name].takes_over:
        return tuple(key.name for key in command.keys[:1])
    if not any(key.write for key in command.keys):
        return ()
    return tuple(dict.fromkeys(key.name for key in command.keys if not key.write))


def most_derived(command: Command, sizes: Sequence[int]) -> int:
    """How many members the result has at most, by the sizes of the sources."""
    most = DERIVED[command.spec.name].bound(sizes)
    asked = elements_asked(command)
    if asked is not None:
        most = min(most, asked)
    return most * columns_of(command) if command.spec.name in SORTS else most
