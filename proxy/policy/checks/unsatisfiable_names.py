"""Naming standards that no key can meet: one that contradicts itself, or several that contradict each other.

Several standards are compared only if they have the same mode for the same clients and the same access: an enforced old
standard and an audited new one may differ. Rules with exceptions or a share of keys do not apply to all keys, and
contradict nothing. The smallest contradiction is reported: without any of its parts there is none.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from proxy.policy.apps import App
from proxy.policy.model import Mode, Policy, PolicyRule
from proxy.policy.precedence import effective_mode
from proxy.policy_yaml.yaml_source import Problems
from proxy.rules.names.joint import for_app, join_standards
from proxy.rules.names.rule import NamesSettings

_PARTS: dict[str, tuple[str, ...]] = {
    "empty_segments": ("empty_segments",),
    "segments": ("min_segments", "max_segments"),
    "characters": ("characters",),
    "min_length": ("min_length",),
    "max_length": ("max_length",),
    "segment_types": ("segment_types",),
    "banned": ("banned",),
    "banned_segments": ("banned_segments",),
    "hash_tags": ("hash_tags", "banned_hash_tags"),
    "prefixes": ("prefixes",),
}
"""The parts of a standard, by their keys in the file: the settings of each. Without these it requires nothing."""
_ASKS_NOTHING = NamesSettings()
_MOST_TOLD = 20
"""The most contradictions that are reported. To find the parts of one takes several searches."""


def find_unsatisfiable_names(policy: Policy, problems: Problems) -> None:
    """Note each set of standards that no key can meet, at the rule that comes last."""
    told: set[tuple[tuple[str, str], ...]] = set()
    tried: set[frozenset[_Standard]] = set()
    hopeless = problems.faulty_rules()
    for together in _held_together(policy):
        for app, group in together:
            standards = frozenset(group)
            if standards in tried or any(rule in hopeless for rule, _ in group) or len(told) >= _MOST_TOLD:
                continue
            tried.add(standards)
            core = _contradiction(group)
            if core and core not in told:
                told.add(core)
                hopeless |= {rule for rule, _ in group if len(group) == 1}
                _note(core, {rule.name: rule for rule in policy.rules}, app, problems)


_Standard: TypeAlias = tuple[str, NamesSettings]
"""The name of a rule, and its standard for an app's keys."""
_Group: TypeAlias = tuple[str, tuple[_Standard, ...]]
"""Standards that an app's keys must all meet."""


def _held_together(policy: Policy) -> Iterator[list[_Group]]:
    """First each rule alone, then the rules of each mode together."""
    rules = [(rule, rule.settings) for rule in policy.rules if isinstance(rule.settings, NamesSettings)]
    asked = _Asked()
    apps = {"": None} | {app.name: app for app in policy.apps}
    yield [
        (app, ((rule.name, asked.of(rule.name, settings, app)),))
        for rule, settings in rules
        for app in ([rule.app] if rule.app else _told_apart(settings, apps))
        if not _is_off(rule)
    ]
    steady: dict[str, list[list[tuple[str, NamesSettings]]]] = {
        name: [list(group) for group in _by_mode(policy, [each for each in rules if _is_of(each[0], name)], app)]
        for name, app in apps.items()
    }
    for access in ("reads", "writes"):
        for name, groups in steady.items():
            held = ([each for each in group if getattr(each[1], access)] for group in groups)
            yield [
                (name, tuple((rule, asked.of(rule, settings, name)) for rule, settings in group))
                for group in held
                if len(group) > 1
            ]


def _is_of(rule: PolicyRule, app: str) -> bool:
    """Whether the rule is about all keys of the app's clients."""
    return rule.app in {"", app} and not rule.scope.by_key


class _Asked:
    """The standards of each rule for an app's keys; apps with the same standard share one object."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], NamesSettings] = {}

    def of(self, rule: str, settings: NamesSettings, app: str) -> NamesSettings:
        listed = app if any(app == name for name, _ in settings.prefixes) else ""
        found = self._found.get((rule, listed))
        if found is None:
            found = self._found[rule, listed] = for_app(settings, listed)
        return found


def _told_apart(settings: NamesSettings, apps: Collection[str]) -> list[str]:
    """One app for each different standard of a rule: no app, and each app with its own prefixes."""
    listed = {name for name, _ in settings.prefixes}
    return [app for app in apps if not app or app in listed]


def _by_mode(
    policy: Policy, rules: Sequence[tuple[PolicyRule, NamesSettings]], app: App | None
) -> Iterator[Iterator[tuple[str, NamesSettings]]]:
    effective_modes = [(effective_mode(policy, rule, app, paused=False), rule, settings) for rule, settings in rules]
    steady = [(each.stage.mode, rule.name, settings) for each, rule, settings in effective_modes if not each.varies]
    steady.sort(key=lambda each: each[0].strictness)
    for mode, group in groupby(steady, key=lambda each: each[0]):
        if mode is not Mode.OFF:
            yield ((rule, settings) for _, rule, settings in group)


def _is_off(rule: PolicyRule) -> bool:
    return rule.mode is not None and rule.mode.mode is Mode.OFF


_Part: TypeAlias = tuple[int, str]
"""The number of a standard, and a part of it."""


def _contradiction(group: Sequence[_Standard]) -> tuple[tuple[str, str], ...]:
    """The smallest contradiction: the names of its rules, and the parts of each; empty if some key meets all.

    The search removes parts while the rest is a contradiction, and finds by halving how many it can remove at once.
    """
    standards = [standard for _, standard in group]
    if some_key_meets(standards):
        return ()
    left = [(i, part) for i, each in enumerate(standards) for part in _PARTS if _asks(each, part)]
    kept: list[_Part] = []
    while left and some_key_meets(_of_parts(standards, kept)):
        needed = bisect_left(
            range(1, len(left)), True, key=lambda taken: some_key_meets(_of_parts(standards, [*kept, *left[taken:]]))
        )
        kept.append(left[needed])
        left = left[needed + 1 :]
    said = {(group[i][0], _written(part, standards[i])) for i, part in kept}
    return tuple((rule, part) for rule, _ in group for part in _PARTS if (rule, part) in said)


def some_key_meets(standards: Collection[NamesSettings]) -> bool:
    """Whether some key meets all of them; True if the search takes too long."""
    joint = join_standards(standards) if standards else None
    return not standards or (joint is not None and joint.is_met_with())


def _of_parts(standards: Sequence[NamesSettings], parts: Iterable[_Part]) -> list[NamesSettings]:
    """The standards, each with one of these parts alone."""
    by_standard: dict[int, list[str]] = {}
    for i, part in parts:
        by_standard.setdefault(i, []).extend(_PARTS[part])
    return [
        NamesSettings(separator=standards[i].separator, **{each: getattr(standards[i], each) for each in asked})
        for i, asked in by_standard.items()
    ]


def _asks(said: NamesSettings, part: str) -> bool:
    return any(getattr(said, setting) != getattr(_ASKS_NOTHING, setting) for setting in _PARTS[part])


def _written(part: str, standard: NamesSettings) -> str:
    """The key of a part in the file: `segments` implies that empty segments are refused."""
    return "segments" if part == "empty_segments" and _asks(standard, "segments") else part


def _note(core: tuple[tuple[str, str], ...], rules: dict[str, PolicyRule], app: str, problems: Problems) -> None:
    parts: dict[str, list[str]] = {}
    for name, part in core:
        parts.setdefault(name, []).append(part)
    last = rules[[*parts][-1]]
    others = [f"{' and '.join(parts[name])} of {name} ({rules[name].where})" for name in parts if name != last.name]
    found = " and ".join(parts.pop(last.name))
    beside = f" beside {' and '.join(others)}" if others else ""
    whose = f" of {app}" if app else ""
    expected = f"something that a key{whose} can meet{beside}; none can"
    problems.add(last.where, f"rules.{last.name}.names", found, expected)
