"""Which commands of which clients a rule is about: its ``keys``, ``except`` and ``apps``, for every guardrail.

    rules:
      small-carts: {sizes: {value: 10KB}, keys: "cart:*", except: "cart:import:*", apps: [checkout, web]}

A rule with `keys` judges a command if one of its keys matches, and the command as a whole. A key that matches `except`
does not count; if all keys do, the rule leaves the command alone. Commands without keys are judged by rules without
`keys` only, but for those that walk the keys by a pattern (KEYS, SCAN): they are about the keys that they may find. If
the keys are unknown, the rule judges the command.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.rows import ROWS
from proxy.commands.spans import scan_pattern
from proxy.commands.spec import Spec
from proxy.schema.globs import key_glob_of, lies_within

_WALKS = frozenset(row.name for row in ROWS.values() if row.walks_keys)
_SPECIAL = frozenset(b"*?[\\")
"""The bytes with which Redis's patterns stop being plain text."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The patterns of keys that a rule is about, and of those that it is not about; empty `keys` are all keys. It is
    on for these `apps` only; without any, for every client."""

    keys: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()

    @property
    def by_key(self) -> bool:
        """Whether it depends on a command's keys."""
        return bool(self.keys or self.without)

    def has_app(self, app: str) -> bool:
        """Whether it is on for clients of this app; "" stands for clients of no app."""
        return not self.apps or app in self.apps

    def concerns(self, command: Command) -> bool:
        """Whether the rule judges this command."""
        if not self.by_key:
            return True
        try:
            names = [key.name for key in command.keys]
        except KeysUnknownError:
            return True
        if names:
            return any(map(self.has, names))
        if not walks(command.spec):
            return not self.keys
        patterns = walked(command)
        exempt = any(covers(glob, pattern) for glob in self.without for pattern in patterns)
        return not exempt and (not self.keys or any(_may_find(glob, patterns) for glob in self.keys))

    def has(self, name: bytes) -> bool:
        """Whether the rule is about this key."""
        if any(key_glob_of(glob).fits(name) for glob in self.without):
            return False
        return not self.keys or any(key_glob_of(glob).fits(name) for glob in self.keys)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The patterns of `keys` of which no key is left."""
        return tuple(glob for glob in self.keys if any(lies_within(glob, each) for each in self.without))


EVERYTHING = Scope()


def walks(spec: Spec) -> bool:
    """Whether the command finds keys by a pattern."""
    return spec.name in _WALKS


def walked(command: Command) -> Sequence[bytes]:
    """The patterns with which a command walks the keyspace, if all of their bytes are known."""
    index = 0
    if command.name == "KEYS" and len(command.argv) == 2:
        index = 1
    elif command.name == "SCAN":
        index = scan_pattern(command)
    pattern = command.argv[index]
    return (pattern,) if index and command.length(index) == len(pattern) else ()


def covers(glob: str, pattern: bytes) -> bool:
    """Whether every key that Redis finds for a pattern matches the glob; decided for ``prefix*`` and equal texts."""
    parts = key_glob_of(glob).parts
    if len(parts) == 1:
        return pattern == parts[0]
    return len(parts) == 2 and not parts[1] and pattern.startswith(parts[0])


def _may_find(glob: str, patterns: Sequence[bytes]) -> bool:
    """Whether Redis may find a key of the glob by the pattern, as far as their beginnings tell."""
    begins = key_glob_of(glob).parts[0]
    for pattern in patterns:
        plain = next((pattern[:i] for i, byte in enumerate(pattern) if byte in _SPECIAL), pattern)
        if not (plain.startswith(begins) or begins.startswith(plain)):
            return False
    return True
