"""What the ACLs of each engine can say, and the commands that it has."""

from dataclasses import dataclass

from proxy.commands.spec import Spec
from proxy.commands.table import STANDARD, Table

_KEYRAIL = "KEYRAIL"


@dataclass(frozen=True, slots=True)
class Version:
    """One engine. `engine` is its name in the command table.

    `selectors`: it has `-command|subcommand`, `%R~`, `%W~` and selectors. Redis 6.2 has none of these, and its COMMAND
    tells no subcommands: it is taken to have all of them, since its ACLs take any word in their place.
    """

    name: str
    engine: str
    selectors: bool = True

    def has(self, spec: Spec) -> bool:
        """Whether the engine has this command."""
        container, _, subcommand = spec.name.partition("|")
        if self.selectors or not subcommand:
            return self.engine in spec.engines
        known = STANDARD.find(container)
        return known is not None and self.engine in known.engines


VERSIONS = {
    each.name: each
    for each in (
        Version("redis-6.2", "redis-6.2", selectors=False),
        Version("redis-7.0", "redis-7.0"),
        Version("redis-8.2", "redis-8.2"),
        Version("valkey-9", "valkey-9.1"),
    )
}
"""By the name that `keyrail acl --for` takes."""

CATEGORIES = tuple(sorted(frozenset().union(*(spec.categories for spec in STANDARD.specs))))
"""The ACL categories of Redis."""


def is_keyrails_own(spec: Spec) -> bool:
    """Whether Keyrail answers it, so that Redis never sees it; or whether it stands for unknown commands."""
    return not spec.id or spec.name.partition("|")[0] == _KEYRAIL


def table_with_made_up_commands() -> tuple[Table, dict[frozenset[str], Spec]]:
    """The command table, completed by made-up commands of a module, one of each category alone, and one that reads or
    writes beside it. Rules judge them as they judge any module's command that the table does not have."""
    sets = {frozenset({category, *beside}) for category in CATEGORIES for beside in ((), ("read",), ("write",))}
    ordered = sorted(sets, key=lambda each: (len(each), sorted(each)))
    names = {each: f"KEYRAIL-STRANGER.{number}" for number, each in enumerate(ordered)}
    table = STANDARD.completed_by([_described(name, categories) for categories, name in names.items()])
    found = {categories: table.find(name) for categories, name in names.items()}
    return table, {categories: spec for categories, spec in found.items() if spec is not None}


def _described(name: str, categories: frozenset[str]) -> list[object]:
    kinds = {"read": b"readonly", "write": b"write", "fast": b"fast", "admin": b"admin", "blocking": b"blocking"}
    flags = [b"module", *(kinds[each] for each in sorted(categories & kinds.keys()))]
    return [name.encode(), -1, flags, 0, 0, 0, [b"@" + each.encode() for each in sorted(categories)]]
