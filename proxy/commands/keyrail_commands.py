"""The commands of Keyrail itself (KEYRAIL …). Keyrail answers them and never forwards them."""

from collections.abc import Iterator

from proxy.commands.introspect import Description
from proxy.commands.rows import ROWS

CONTAINER = "KEYRAIL"


def keyrail_commands() -> Iterator[Description]:
    """The container, then its subcommands."""
    flags, categories = frozenset({"noscript", "loading", "stale"}), frozenset({"slow"})
    for row in ROWS.values():
        if row.own_arity:
            yield Description(row.name, row.own_arity, row.name == CONTAINER, flags, categories, key_specs=())
