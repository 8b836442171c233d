"""Standards for names that no key can meet: one that contradicts itself, or several of which a key meets never all.

Several are held against each other only where they are in the same mode for the same clients and the same access: an
old standard that is enforced and a new one that is audited may differ. Rules with exceptions or a share of keys leave
keys out, and contradict nothing. What is reported is the least that contradicts: every part that could be taken away
is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, product

from proxy.commands.table import STANDARD
from proxy.policy.apps import App
from proxy.policy.model import Mode, Policy, PolicyRule
from proxy.policy.precedence import effective_mode
from proxy.policy_yaml.yaml_source import Problems
from proxy.rules.lowering import NameCheck
from proxy.rules.name_language import TooIntricateError, endings
from proxy.rules.names.rule import NamesSettings
from proxy.rules.rule import Binding, Wording

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
"""What a standard says, by its keys in the file: the settings of each. Without them it asks for nothing."""
_ASKS_NOTHING = NamesSettings()
_MOST_STATES = 5_000
"""With more than that nothing is said: it would take too long to find out."""


def find_unsatisfiable_names(policy: Policy, problems: Problems) -> None:
    """Note each set of standards that no key can meet, at the rule that comes last."""
    named: set[tuple[tuple[str, str], ...]] = set()
    hopeless = problems.faulty_rules()
    for together in _held_together(policy):
        for app, rules in together:
            core = () if any(rule.name in hopeless for rule in rules) else _contradiction(rules, app)
            if core and core not in named:
                named.add(core)
                hopeless |= {rule.name for rule in rules if len(rules) == 1}
                _note(core, {rule.name: rule for rule in rules}, app, problems)


_Group = tuple[str, tuple[PolicyRule, ...]]
"""Rules that an app's keys have to meet all."""


def _held_together(policy: Policy) -> Iterator[list[_Group]]:
    """First each rule alone, then those of one mode."""
    callers = (None, *policy.apps)
    rules = [rule for rule in policy.rules if isinstance(rule.settings, NamesSettings)]
    yield [
        (_name(app), (rule,)) for rule in rules for app in callers if rule.app in {"", _name(app)} and not _is_off(rule)
    ]
    for access in ("reads", "writes"):
        for app in callers:
            held = [rule for rule in rules if rule.app in {"", _name(app)} and getattr(rule.settings, access)]
            yield [(_name(app), group) for group in _by_mode(policy, held, app) if len(group) > 1]


def _by_mode(policy: Policy, rules: Sequence[PolicyRule], app: App | None) -> Iterator[tuple[PolicyRule, ...]]:
    effective_modes = [(rule, effective_mode(policy, rule, app, paused=False)) for rule in rules]
    steady = [(effective.stage.mode, rule) for rule, effective in effective_modes if not effective.varies]
    steady.sort(key=lambda each: each[0].strictness)
    for mode, group in groupby(steady, key=lambda each: each[0]):
        if mode is not Mode.OFF:
            yield tuple(rule for _, rule in group)


def _name(app: App | None) -> str:
    return "" if app is None else app.name


def _is_off(rule: PolicyRule) -> bool:
    return rule.mode is not None and rule.mode.mode is Mode.OFF


def _contradiction(rules: Sequence[PolicyRule], app: str) -> tuple[tuple[str, str], ...]:
    """The least that no key can meet: the rules, by name, and what each says; nothing where some key meets all."""
    said: dict[str, NamesSettings] = {}
    for rule in rules:
        assert isinstance(rule.settings, NamesSettings)
        own, foreign = rule.settings.prefixes_of(app)
        prefixes = rule.settings.prefixes if own or foreign else ()
        said[rule.name] = replace(rule.settings, prefixes=prefixes, in_schema=False, owned=False)
    if _some_key(frozenset(said.values()), app):
        return ()
    for rule, part in product(rules, _PARTS.values()):
        less = {setting: getattr(_ASKS_NOTHING, setting) for setting in part}
        relaxed = said | {rule.name: replace(said[rule.name], **less)}
        if not _some_key(frozenset(relaxed.values()), app):
            said = relaxed
    parts = {(rule.name, _written(part, rule)) for rule in rules for part in _PARTS if _asks(said[rule.name], part)}
    return tuple((rule.name, part) for rule in rules for part in _PARTS if (rule.name, part) in parts)


def _asks(said: NamesSettings, part: str) -> bool:
    return any(getattr(said, setting) != getattr(_ASKS_NOTHING, setting) for setting in _PARTS[part])


def _written(part: str, rule: PolicyRule) -> str:
    """Who counts segments refuses empty ones without a word."""
    assert isinstance(rule.settings, NamesSettings)
    return "segments" if part == "empty_segments" and _asks(rule.settings, "segments") else part


@lru_cache(maxsize=4096)
def _some_key(standards: frozenset[NamesSettings], app: str) -> bool:
    """Whether some key meets all of them, or it would take too long to find out."""
    checks: list[NameCheck] = [each.bind("", Wording(), Binding(STANDARD, app=app)).check for each in standards]
    least, most = max(check.min_length for check in checks), min(check.max_length for check in checks)
    machines = [each for check in checks for each in check.machines]
    try:
        return any(True for _ in endings(machines, least, most, _MOST_STATES))
    except TooIntricateError:
        return True


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
