"""Lifetime rules with overlapping keys: one of them must be the most specific for each key, and each must act on a key.

If two overlap, the more specific one takes the keys (``proxy.rules.lifetime.precedence``). Errors are:

- two globs that overlap although neither lies within the other, and equal globs;
- a glob with keys that all belong to more specific rules, or to schema entries with a ``ttl``;
- a more specific rule, or ``ttl`` of the schema, that gives no TTL to keys which the other rule gives one: by its
  ``types``, or because it has no default;
- an app's own default above the longest lifetime of the platform's rule.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from proxy.commands.creation import TYPES
from proxy.policy.key_claims import ClaimingRules
from proxy.policy.model import Mode, Policy, PolicyRule, Stage
from proxy.policy.precedence import EffectiveMode, audience, effective_mode, is_active
from proxy.policy.sections.schema import PlacedEntry
from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.fields import write_duration
from proxy.policy_yaml.yaml_source import Problems
from proxy.rules.key_claims import Globs
from proxy.rules.lifetime.precedence import OtherLifetimes, find_conflict, leaves_entry, left_keys, takings
from proxy.rules.lifetime.settings import LifetimeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.schema.automaton import SchemaError, find_regions
from proxy.schema.entries import KeyEntry, Owner
from proxy.schema.expressions import ANY_BYTE, Chain, OneOf, Repeated, byte_set
from proxy.schema.globs import GlobIndex, glob_expression
from proxy.traffic.key_text import shown as shown_key

_WITHOUT_EMPTY_END = Chain((Repeated(OneOf(ANY_BYTE), or_not=True), OneOf(ANY_BYTE & ~byte_set(b":"))))
"""The keys that count: a lifetime for lock:* never acts where lock:{what...} has a ttl, though lock: is left to it."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A lifetime rule that is on for some client, with its settings."""

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
    """Note every overlap that is ambiguous or leaves keys without a TTL."""
    faulty = problems.faulty_rules()
    lifetimes = [
        _Placed(rule, rule.settings, heard)
        for rule in policy.rules
        if isinstance(rule.settings, LifetimeSettings) and rule.name not in faulty and (heard := audience(policy, rule))
    ]
    if not _check_pairs(lifetimes, problems):
        return
    try:
        _check_left(policy, placed, lifetimes, problems)
    except SchemaError:
        expected = "fewer globs with several *, so that Keyrail can compare them with each other and with the schema"
        lifetimes[0].note("keys", "globs that are too complex together", expected, problems)


def _check_pairs(lifetimes: Sequence[_Placed], problems: Problems) -> bool:
    """Note ambiguous pairs; return whether there are none."""
    known = len(problems.found)
    claiming: dict[str, list[int]] = {}
    for number, each in enumerate(lifetimes):
        for glob in each.settings.globs:
            claiming.setdefault(glob, []).append(number)
    index = GlobIndex(claiming)
    for i, later in enumerate(lifetimes):
        near = {
            number for glob in later.settings.globs for other in index.overlapping(glob) for number in claiming[other]
        }
        for earlier in (lifetimes[number] for number in sorted(near) if number < i):
            both_for_all = not (later.settings.keys or earlier.settings.keys)
            if not both_for_all and later.audience & earlier.audience:  # else told where contradictions are
                _check_pair(later, earlier, problems)
    return len(problems.found) == known


def _check_pair(later: _Placed, earlier: _Placed, problems: Problems) -> None:
    conflict = find_conflict(later.settings.globs, earlier.settings.globs)
    if conflict is not None:
        expected = (
            f"a pattern that does not overlap with {shown(conflict.other)} of {earlier.title}, or of which one matches "
            f"all keys of the other; both match {shown_key(conflict.example)}, and neither is more specific"
        )
        later.note("keys", shown(conflict.mine), expected, problems)
    for narrow, wide in ((later, earlier), (earlier, later)):
        if takings(wide.settings.globs, narrow.settings.globs):
            _check_taking(narrow, wide, problems)


def _check_taking(narrow: _Placed, wide: _Placed, problems: Problems) -> None:
    """Note keys that the narrower rule takes and that then get no TTL."""
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
        expected = f"a default; it takes these keys from {wide.title}, and they would have no TTL"
        narrow.note("default", "nothing", expected, problems)
    missing = sorted(wide.settings.types - narrow.settings.types)
    if missing:
        expected = f"{', '.join(missing)}, too: {wide.title} gives these types a TTL, but not to keys of this rule"
        narrow.note("types", ", ".join(sorted(narrow.settings.types)), expected, problems)


def _check_left(
    policy: Policy, placed: Sequence[PlacedEntry], lifetimes: Sequence[_Placed], problems: Problems
) -> None:
    """Whether each glob has keys that no more specific rule takes, and the rules that take keys give them a TTL."""
    views = _views(policy)
    contested = [each for each in lifetimes if policy.schema.entries or any(_globs_of(views[each.rule.name]))]
    if not contested:
        return
    typed = any(isinstance(rule.settings, SchemaTypeSettings) and is_active(policy, rule) for rule in policy.rules)
    languages = [entry.pattern.expression for entry in policy.schema.entries]
    others = (globs for each in contested for globs in (each.settings.globs, *_globs_of(views[each.rule.name])))
    numbers = {glob: i for i, glob in enumerate(dict.fromkeys(chain.from_iterable(others)), len(languages))}
    languages += map(glob_expression, numbers)
    languages.append(_WITHOUT_EMPTY_END)
    claims: dict[int, list[_Contested]] = {}
    found = [_Contested(each, views[each.rule.name]) for each in contested]
    for each in found:
        for glob in each.lifetime.settings.globs:
            claims.setdefault(numbers[glob], []).append(each)
    for region, example in find_regions(languages).items():
        if len(languages) - 1 in region:
            owner = policy.schema.owner_of(example)
            for number in region:
                for each in claims.get(number, ()):
                    each.meet(number, example, owner, typed=typed)
    for each in found:
        mine = each.lifetime.settings
        vain = [glob for glob in mine.globs if numbers[glob] not in each.acting]
        _note_vain(each.lifetime, vain, each.taken, problems)
        if mine.bounds.gives:
            _check_entries(each.lifetime, [one for one in placed if one.entry.title in each.taken], problems)


class _Contested:
    """A lifetime rule, the numbers of its globs that act on a key, and the entries that take keys from it."""

    def __init__(self, lifetime: _Placed, views: Sequence[OtherLifetimes]) -> None:
        self.lifetime = lifetime
        self.acting: set[int] = set()
        self.taken: dict[str, None] = {}
        self._views = [(view, left_keys(lifetime.settings.globs, view.globs)) for view in views]

    def meet(self, number: int, key: bytes, owner: Owner, *, typed: bool) -> None:
        """Note which rule or entry takes a key that matches the glob of this number."""
        for view, left in self._views:
            if not leaves_entry(None if owner is None else owner.lifetime, view):
                assert owner is not None, "a key without an entry is left"
                self.taken[owner.title] = None
            elif typed and self.lifetime.settings.bounds.gives and owner is not None and not self._is_for(owner):
                self.taken[owner.title] = None
            elif number not in self.acting and (left is None or left(key)):
                self.acting.add(number)

    def _is_for(self, owner: KeyEntry) -> bool:
        """Whether the rule gives lifetimes to keys of this entry's type."""
        return owner.type is None or (owner.type if owner.type in TYPES else "other") in self.lifetime.settings.types


def _globs_of(views: Iterable[OtherLifetimes]) -> Iterator[Globs]:
    return (globs for view in views for globs in view.globs)


def _views(policy: Policy) -> dict[str, list[OtherLifetimes]]:
    """By rule: the sets of rules that may take its keys, over all clients that it is on for."""
    found: dict[str, dict[OtherLifetimes, None]] = {rule.name: {} for rule in policy.rules}
    seen: set[tuple[tuple[str, Stage], ...]] = set()
    claiming = [rule for rule in policy.rules if rule.settings.claim is not None]
    for app in (None, *policy.apps):
        name = "" if app is None else app.name
        effective = [(one, effective_mode(policy, one, app, paused=False)) for one in claiming if one.app in {"", name}]
        active = [(one, said) for one, said in effective if _is_on(said)]
        situation = tuple((one.name, said.stage) for one, said in active)
        if situation not in seen:
            seen.add(situation)
            rules = ClaimingRules(active)
            for each in active:
                found[each[0].name][OtherLifetimes.of(rules.beside(each))] = None
    return {name: list(views) for name, views in found.items()}


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
                f"a default, or required: true; {each.title} leaves these keys to this entry, and they would have no "
                "TTL"
            )
            problem = (one.line_of("ttl"), f"{one.path_of('ttl')}.default", "nothing", expected)
            if all(known.path != problem[1] for known in problems.found):
                problems.add(*problem)
