"""Entries of the schema whose keys no enforced rule for names lets pass: patterns that can never match.

The schema's automaton and a rule's characters, length and segments are walked together, over the shortest keys first,
until each entry has been seen to own one that is right.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from proxy.commands.table import STANDARD
from proxy.hotpath.automaton import NOBODY, Automaton
from proxy.policy.model import Mode, Policy, PolicyRule
from proxy.policy.precedence import voice
from proxy.policy.sections.schema import PlacedEntry
from proxy.policy.yaml_source import Problems
from proxy.rules.lowering import NameCheck
from proxy.rules.names import NamesSettings
from proxy.rules.rule import Binding, Wording

_MOST_STATES = 20_000
"""With more than that nothing is said: it would take too long to find out."""
_MOST_SEGMENTS = 64
"""More are not told apart."""

_State: TypeAlias = tuple[int, int, bool]
"""The row of the schema's automaton, the number of segments, and whether the last of them is empty."""


def find_unnamed(policy: Policy, placed: Sequence[PlacedEntry], problems: Problems) -> None:
    """Note each entry to whose keys nobody may write."""
    entries = {entry: number for number, entry in enumerate(policy.schema.entries)}
    for rule in policy.rules:
        if not entries or not isinstance(rule.settings, NamesSettings) or not _holds(policy, rule):
            continue
        # Whose prefixes a key must have depends on who writes it; the schema is what is looked at.
        settings = replace(rule.settings, prefixes=(), in_schema=False)
        owners = _owners(policy.schema.automaton, settings.bind("", Wording(), Binding(STANDARD)).check, len(entries))
        for each in placed:
            if owners is not None and entries[each.entry] not in owners:
                expected = f"a pattern with a key that {rule.name} ({rule.where}) lets pass"
                problems.add(each.where, each.path, repr(each.entry.pattern.text), expected)


def _holds(policy: Policy, rule: PolicyRule) -> bool:
    """Whether the rule is enforced for writes, whatever the key."""
    voiced = voice(policy, rule, None, paused=False)
    writes = isinstance(rule.settings, NamesSettings) and rule.settings.writes
    return writes and not rule.app and not voiced.varies and voiced.stage.mode is Mode.ENFORCE


def _owners(schema: Automaton, check: NameCheck, count: int) -> set[int] | None:
    """The entries that own a name which is right; None if that takes too long to find out."""
    found: set[int] = set()
    level: list[_State] = [(schema.start, 1, True)]
    seen = set(level)
    step = _stepping(schema, check)
    for _ in range(check.max_length + 1):
        found.update(schema.rows[state[0] + schema.width - 1] for state in level if _may_end(check, state))
        found.discard(NOBODY)
        level = [*dict.fromkeys(target for state in level for target in step(state) if target not in seen)]
        if len(found) == count or not level:
            break
        seen.update(level)
        if len(seen) > _MOST_STATES:
            return None
    return found


def _stepping(schema: Automaton, check: NameCheck) -> Callable[[_State], Iterator[_State]]:
    kinds = {(schema.classes[byte], byte == check.separator) for byte in range(256) if check.allowed[byte]}

    def step(state: _State) -> Iterator[_State]:
        row, segments, empty = state
        for byte_class, separates in kinds:
            target = schema.rows[row + byte_class]
            if target and not separates:
                yield target, segments, False
            elif target and segments < check.max_segments and (check.empty_segments or not empty):
                yield target, min(segments + 1, _MOST_SEGMENTS), True

    return step


def _may_end(check: NameCheck, state: _State) -> bool:
    _, segments, empty = state
    return check.separator is None or (segments >= check.min_segments and (check.empty_segments or not empty))
