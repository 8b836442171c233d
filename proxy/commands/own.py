"""The commands of Keyrail's own: what a client can ask it in-band. No engine knows them, and none ever sees them."""

from collections.abc import Iterator

from proxy.commands.introspect import Description

CONTAINER = "KEYRAIL"

_ARITIES = {"EXPLAIN": -3, "HELP": 2, "HOTKEYS": -2, "INFO": 2, "PATTERNS": -2, "POLICY": 2, "RULES": -2, "SLOTS": -2}
"""By subcommand, as Redis counts: both words included; negative: at least that many."""


def own_commands() -> Iterator[Description]:
    """The container, then its subcommands."""
    yield _described(CONTAINER, -2, container=True)
    for name, arity in _ARITIES.items():
        yield _described(f"{CONTAINER}|{name}", arity, container=False)


def _described(name: str, arity: int, *, container: bool) -> Description:
    flags = frozenset({"noscript", "loading", "stale"})
    return Description(name, arity, container, flags, categories=frozenset({"slow"}), key_specs=())
