"""Lifetimes whose keys overlap: which of them a key falls under must be plain, and each must act on some key.

Of two that overlap the more specific one takes the keys (``proxy.rules.lifetime.precedence``). Errors are:

- two globs that overlap although neither lies within the other, and equal ones;
- a glob all of whose keys are taken by more specific rules, or by entries of the schema that have a ``ttl``;
- a more specific lifetime, or ``ttl`` of the schema, that leaves keys to live for ever which the other gives a TTL: by
  its ``types``, or without a default;
- an app's own default above the longest lifetime that the platform's rule allows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proxy.commands.creation import TYPES
from proxy.policy.lifetimes import beside
from proxy.policy.model import Mode, Policy, PolicyRule
from proxy.policy.precedence import EffectiveMode, audience, effective_mode, is_active
from proxy.policy.sections.schema import PlacedEntry
from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.fields import write_duration
from proxy.policy_yaml.yaml_source import Problems
from proxy.rules.lifetime.precedence import OtherLifetimes, compare, leaves_entry, left_keys
from proxy.rules.lifetime.settings import LifetimeSettings, SchemaTtlSettings, other_lifetimes
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.schema.automaton import SchemaError, find_regions
from proxy.schema.entries import KeyEntry
from proxy.schema.expressions import ANY_BYTE, Chain, OneOf, Repeated, byte_set
from proxy.schema.globs import glob_expression
from proxy.traffic.names import shown as shown_key

_WITHOUT_EMPTY_END = Chain((Repeated(OneOf(ANY_BYTE), or_not=True), OneOf(ANY_BYTE & ~byte_set(b":"))))
"""The keys that count: a lifetime for lock:* never acts where lock:{what...} has a ttl, though lock: is left to it."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A rule about lifetimes that is on for somebody, with what it says."""

    rule: PolicyRule
    settings: LifetimeSettings
    audience: frozenset[str]

    @property
    def title(self) -> str:
        return f"{self.rule.name} ({self.rule.where})"

    def note(self, key: str, found: str, expected: str, problems: Problems) -> None:
        path = f"rules.{self.rule.name}.lifetime{key and f'.{key}'}"
        problems.add(self.rule.where, path, found, expected)


def find_lifetime_overlaps(policy: Policy, placed: Sequence[PlacedEntry], problems: Problems) -> None:
    """Note every overlap that leaves open, or leaves out, what holds for a key."""
    faulty = problems.faulty_rules()
    lifetimes = [
        _Placed(rule, rule.settings, heard)
        for rule in policy.rules
        if isinstance(rule.settings, LifetimeSettings) and rule.name not in faulty and (heard := audience(policy, rule))
    ]
    try:
        if not _check_pairs(lifetimes, problems):
            return
        for each in lifetimes:
            _check_left(policy, placed, each, problems)
    except SchemaError:
        expected = "globs that can be compared with each other and with the schema; many with several * can't"
        lifetimes[0].note("keys", "globs that are too intricate together", expected, problems)


def _check_pairs(lifetimes: Sequence[_Placed], problems: Problems) -> bool:
    """Whether no two of them leave open which one is meant."""
    known = len(problems.found)
    for i, later in enumerate(lifetimes):
        for earlier in lifetimes[:i]:
            both_for_all = not (later.settings.keys or earlier.settings.keys)
            if both_for_all or not later.audience & earlier.audience:
                continue  # the former is told where contradictions are
            for conflict in compare(later.settings.globs, earlier.settings.globs).conflicts[:1]:
                other = f"{shown(conflict.other)} of {earlier.title}"
                expected = (
                    f"a pattern that does not overlap with {other}, or that lies wholly within it or around it; both "
                    f"match {shown_key(conflict.example)}, and neither is the more specific"
                )
                later.note("keys", shown(conflict.mine), expected, problems)
            for narrow, wide in ((later, earlier), (earlier, later)):
                if compare(wide.settings.globs, narrow.settings.globs).takings:
                    _check_taking(narrow, wide, problems)
    return len(problems.found) == known


def _check_taking(narrow: _Placed, wide: _Placed, problems: Problems) -> None:
    """What the wider one gives its keys must not be lost where the narrower one takes them."""
    bounds, others = narrow.settings.bounds, wide.settings.bounds
    if narrow.rule.app and not wide.rule.app:
        if bounds.default is not None and others.most is not None and bounds.default > others.most:
            most = write_duration(others.most)
            expected = f"at most {most}, the max of {wide.title}; an app's file never loosens a rule"
            narrow.note("default", write_duration(bounds.default), expected, problems)
        return
    if not others.gives:
        return
    if not bounds.gives:
        expected = f"a default; it takes these keys from {wide.title}, and without a TTL they would live for ever"
        narrow.note("default", "nothing", expected, problems)
    missing = sorted(wide.settings.types - narrow.settings.types)
    if missing:
        expected = f"{', '.join(missing)} among them; {wide.title} is for those, and leaves the keys of this rule alone"
        narrow.note("types", ", ".join(sorted(narrow.settings.types)), expected, problems)


def _check_left(policy: Policy, placed: Sequence[PlacedEntry], each: _Placed, problems: Problems) -> None:
    """Whether each of its globs has keys that nothing more specific takes, and what takes them gives them a TTL."""
    views = list(dict.fromkeys(_views(policy, each.rule)))
    if not policy.schema.entries and not any(others.globs for others in views):
        return
    typed = any(isinstance(rule.settings, SchemaTypeSettings) and is_active(policy, rule) for rule in policy.rules)
    mine = each.settings.globs
    languages = [entry.pattern.expression for entry in policy.schema.entries]
    first = len(languages)
    others_globs = (glob for others in views for globs in others.globs for glob in globs)
    languages += map(glob_expression, (*mine, *dict.fromkeys(others_globs)))
    languages.append(_WITHOUT_EMPTY_END)
    acting: set[int] = set()
    taken: dict[str, None] = {}
    for region, example in find_regions(languages).items():
        matched = {number for number in region if first <= number < first + len(mine)}
        if not matched or len(languages) - 1 not in region:
            continue
        owner = policy.schema.owner_of(example)
        for others in views:
            left = left_keys(mine, others.globs)
            if not leaves_entry(None if owner is None else owner.lifetime, others):
                assert owner is not None, "a key without an entry is left"
                taken[owner.title] = None
            elif typed and each.settings.bounds.gives and owner is not None and not _is_for(each.settings, owner):
                taken[owner.title] = None
            elif left is None or left(example):
                acting |= matched
    _note_vain(each, [glob for i, glob in enumerate(mine, first) if i not in acting], taken, problems)
    if each.settings.bounds.gives:
        _check_entries(each, [one for one in placed if one.entry.title in taken], problems)


def _is_for(settings: LifetimeSettings, owner: KeyEntry) -> bool:
    """Whether the rule gives lifetimes to keys of this entry's type."""
    return owner.type is None or (owner.type if owner.type in TYPES else "other") in settings.types


def _views(policy: Policy, rule: PolicyRule) -> Iterator[OtherLifetimes]:
    """The rules that may take its keys, for each caller that it is on for."""
    for app in (None, *policy.apps):
        name = "" if app is None else app.name
        effective = [
            (one, effective_mode(policy, one, app, paused=False))
            for one in policy.rules
            if one.app in {"", name} and isinstance(one.settings, LifetimeSettings | SchemaTtlSettings)
        ]
        active = [(one, said) for one, said in effective if _is_on(said)]
        for one, said in active:
            if one is rule:
                yield other_lifetimes(beside((one, said), active))


def _is_on(said: EffectiveMode) -> bool:
    return said.varies or said.stage.mode is not Mode.OFF


def _note_vain(each: _Placed, vain: Sequence[str], taken: dict[str, None], problems: Problems) -> None:
    for glob in vain:
        owned = f"belong to entries of the schema with a ttl, or a type, that is not this rule's: {', '.join(taken)}"
        expected = (
            f"keys for this rule to act on; all that match {owned if taken else 'fall under more specific rules'}"
        )
        if each.settings.keys:
            each.note("keys", shown(glob), expected, problems)
        else:
            each.note("", "a lifetime that never acts", expected, problems)


def _check_entries(each: _Placed, taking: Sequence[PlacedEntry], problems: Problems) -> None:
    for one in taking:
        lifetime = one.entry.lifetime
        if lifetime is not None and not lifetime.permanent and not lifetime.gives:
            expected = (
                f"a default, or required: true; {each.title} leaves these keys to this entry, and without a TTL they "
                "would live for ever"
            )
            problem = (one.line_of("ttl"), f"{one.path_of('ttl')}.default", "nothing", expected)
            if all(known.path != problem[1] for known in problems.found):
                problems.add(*problem)
