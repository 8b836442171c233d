"""Commands that no available engine reports: their rows have what the documentation says.

Keys are written as ``RW 1`` (argument 1), ``RW 1..2``, ``RO 1..-2`` (to the last but one), ``OW 1../3`` (every third
from 1 to the end), ``RO #1`` (argument 1 says how many follow it). A ``;`` separates several ranges.
"""

import re
from collections.abc import Iterator
from functools import cache

from proxy.commands.introspect import Description
from proxy.commands.recorded import Recorded
from proxy.commands.row import Published
from proxy.commands.rows import ROWS
from proxy.commands.spec import KeySpec

_ACCESS_FLAGS = {
    "RO": frozenset({"RO", "access"}),
    "RW": frozenset({"RW", "access", "update"}),
    "OW": frozenset({"OW", "update"}),
    "RM": frozenset({"RM", "delete"}),
}

_KEYS = re.compile(
    r"(?P<access>R[OWM]|OW) "
    r"(?:#(?P<count>[0-9]+)|(?P<first>[0-9]+)(?P<dots>\.\.(?P<last>-?[0-9]+)?)?)"
    r"(?:/(?P<step>[0-9]+))?"
)


def published_commands() -> Iterator[Recorded]:
    """All commands that have a ``Published`` in their rows."""
    for row in ROWS.values():
        if row.published is not None:
            yield Recorded(_described(row.name, row.published), "", (row.published.engine,))


def _described(name: str, published: Published) -> Description:
    flags = frozenset(published.flags.split())
    return Description(
        name=name,
        arity=published.arity,
        container=published.container,
        flags=flags,
        categories=flags & {"admin", "fast", "write"},
        key_specs=tuple(key_spec(part) for part in published.keys.split(";") if part),
    )


@cache
def key_spec(text: str) -> KeySpec:
    """The key specification for a text such as ``RO 1..-2``; ValueError for any other text."""
    found = _KEYS.fullmatch(text)
    if found is None:
        raise ValueError(f"no range of keys: {text!r}; expected a text such as 'RW 1' or 'RO 1..-2'")
    flags = _ACCESS_FLAGS[found["access"]]
    step = int(found["step"] or 1)
    if found["count"]:
        return KeySpec(flags, "index", start=int(found["count"]), find="keynum", first_key=1, step=step)
    first = int(found["first"])
    last = 0 if found["dots"] is None else int(found["last"] or -1)
    return KeySpec(flags, "index", start=first, last=last if last <= 0 else last - first, step=step)
