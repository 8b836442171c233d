"""The commands that test each guardrail, in every form in which a client can send them (``tests.guardrails.matrix``).

The cases of a guardrail are in ``cases.py`` in its folder. If no single command can show a guardrail, the file names
the test that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from proxy.rules.guardrails import GUARDRAILS


@dataclass(frozen=True)
class Case:
    """One guardrail. `setup` makes the keys, `send` is what it is about; `without` are forms in which it means no such
    thing.

    Where the command is changed and not refused, `ttl_of` names a key that has a TTL in the end, and `leaves` makes
    the keys that are there then, if they are others. `second` is the same fault in another key or argument. Rules that
    cannot stand in one policy are in another `group`.
    """

    name: str
    rule: dict[str, object]
    send: str
    setup: tuple[str, ...] = ()
    second: str = ""
    refused: bool = True
    ttl_of: str = ""
    leaves: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    group: str = "common"


SILENT = frozenset({"without replies", "reply skipped"})
"""Here the command's own reply never comes."""
NOTHING_FOLLOWS = SILENT | {"after a watch", "tracking"}
"""Here no hidden command goes along."""

NOT_IN_MULTI = frozenset({"transaction", "transaction in steps"})


def all_cases() -> Iterator[Case]:
    """The cases of all guardrails."""
    for guardrail in GUARDRAILS:
        yield from import_module(f"tests.rules.{guardrail}.cases").CASES


def elsewhere() -> dict[str, str]:
    """The guardrails without a case, and who shows them instead."""
    modules = {guardrail: import_module(f"tests.rules.{guardrail}.cases") for guardrail in GUARDRAILS}
    return {guardrail: module.ELSEWHERE for guardrail, module in modules.items() if not module.CASES}
