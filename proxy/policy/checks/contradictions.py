"""Rules of one policy that contradict each other for the same clients. A rule that is off contradicts nothing.

A rule applies to every app for which it is not off; an app's own rule applies to that app only. So KEYS may be refused
for all apps and answered through SCAN for one app, if the refusal is off for that app. And one app's rule may refuse a
command that is replaced for other apps.

- a command is refused twice: the second rule can never act;
- a command is refused, and listed in an allow list;
- a command is refused and replaced, or replaced by a refused command;
- KEYS is refused, and answered through SCAN;
- a command is replaced twice, or by a command that is replaced, too;
- prefixes for an unknown app, or for an app that any client can claim to be;
- two lifetimes for all keys, or two by the schema: after the first has given a TTL, the second does nothing (if they
  name keys, ``lifetime_overlaps`` compares them);
- two rules compress values of the same key: stored values have one form;
- a rule that is equal to another;
- a rule about the schema in a policy without a schema, or without entries with that part.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.commands.table import STANDARD
from proxy.policy.model import Policy, PolicyRule
from proxy.policy.precedence import audience
from proxy.policy.scope import Scope
from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.yaml_source import Problems
from proxy.rules.allow_only.rule import AllowOnlySettings
from proxy.rules.compress.rule import CompressSettings
from proxy.rules.keys_by_scan.rule import KeysByScanSettings
from proxy.rules.lifetime.settings import LifetimeSettings, SchemaTtlSettings
from proxy.rules.listing import covered, entry_of
from proxy.rules.names.rule import DEFAULT_PREFIXES, NamesSettings
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.replace.rule import ReplaceSettings
from proxy.rules.rule import RuleSettings
from proxy.rules.schema.fields import SchemaFieldsSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.rules.transactions.rule import BEGINNINGS, TransactionsSettings
from proxy.schema.entries import NO_SCHEMA, KeyEntry
from proxy.schema.globs import GlobIndex

_BEGINNINGS = tuple(spec.display for spec in STANDARD.specs if spec.state in BEGINNINGS)


def find_contradictions(policy: Policy, problems: Problems) -> None:
    """Note every contradiction, at the rule that comes second in the file."""
    audiences = {rule.name: audience(policy, rule) for rule in policy.rules}
    rules = [rule for rule in policy.rules if audiences[rule.name]]
    # Rules for some keys leave others: two of them need not be about the same command.
    for_all = [rule for rule in rules if not rule.scope.by_key]
    refused = _find_refused(for_all, audiences, problems)
    _check_allowed(rules, refused, problems)
    _check_replaced(for_all, refused, audiences, problems)
    _check_walks(rules, refused, problems)
    _check_prefixes(policy, rules, problems)
    _check_lifetimes(for_all, audiences, problems)
    _check_compressed(rules, problems)
    _check_repeated(rules, problems)
    for rule in rules:
        key, part = _asks_about_schema(rule.settings)
        if key and policy.schema is NO_SCHEMA:
            _note(rule, key, "a rule about the schema", "a schema; this policy has none", problems)
        elif part and policy.schema.entries and not any(map(_PARTS[part], policy.schema.entries)):
            _note(rule, key, shown(part), f"some entry of the schema to have {part}; none has", problems)


_PARTS: dict[str, Callable[[KeyEntry], object]] = {
    "type": lambda entry: entry.type,
    "size": lambda entry: entry.size,
    "fields": lambda entry: entry.fields,
    "ttl": lambda entry: entry.lifetime,
}


def _asks_about_schema(settings: RuleSettings) -> tuple[str, str]:
    """The key with which a rule refers to the schema, if it does, and the part of entries that it needs."""
    match settings:
        case SchemaTypeSettings():
            return "schema", "type"
        case SchemaSizeSettings():
            return "schema", "size"
        case SchemaFieldsSettings():
            return "schema", "fields"
        case SchemaTtlSettings():
            return "schema", "ttl"
        case NamesSettings(in_schema=True):
            return "names.in_schema", ""
        case _:
            return "", ""


Audiences: TypeAlias = Mapping[str, frozenset[str]]
"""By rule: the apps that it applies to."""


@dataclass(slots=True)
class _Refused:
    """The refused commands, and the rules that refuse them."""

    audiences: Audiences
    by_command: dict[str, list[PolicyRule]] = field(default_factory=dict)

    def by(self, command: str, rule: PolicyRule) -> PolicyRule | None:
        """The rule that refuses a command to all apps of `rule`, so that `rule` never acts on it."""
        mine = self.audiences[rule.name]
        return next((each for each in self.by_command.get(command, ()) if mine <= self.audiences[each.name]), None)


def _check_lifetimes(rules: list[PolicyRule], audiences: Audiences, problems: Problems) -> None:
    for_all = [rule for rule in rules if isinstance(rule.settings, LifetimeSettings) and not rule.settings.keys]
    by_schema = [rule for rule in rules if isinstance(rule.settings, SchemaTtlSettings)]
    for key, found in (("lifetime", for_all), ("schema", by_schema)):
        for i, rule in enumerate(found):
            first = next((each for each in found[:i] if audiences[each.name] & audiences[rule.name]), None)
            if first is not None:
                expected = f"one lifetime for these keys; {_placed(first, rule)} has the same"
                _note(rule, key, "a second lifetime", expected, problems)


def _check_compressed(rules: list[PolicyRule], problems: Problems) -> None:
    compressing = [(rule, rule.settings.terms.keys) for rule in rules if isinstance(rule.settings, CompressSettings)]
    claimed: dict[str, PolicyRule] = {}
    for rule, globs in reversed(compressing):
        claimed |= dict.fromkeys(globs, rule)  # an equal glob is found at the first rule that has it
    index, earlier = GlobIndex(claimed), set[str]()
    for rule, globs in compressing:
        for glob in globs:
            for other in index.overlapping(glob):
                if other in earlier:
                    theirs = claimed[other]
                    expected = f"patterns that do not overlap with {shown(other)} of {theirs.name} ({theirs.where})"
                    _note(rule, "compress.keys", shown(glob), expected, problems)
        earlier.update(globs)


def _check_repeated(rules: list[PolicyRule], problems: Problems) -> None:
    """Note equal rules: the second of them never acts, and counts the same commands again."""
    said: dict[tuple[str, Scope, RuleSettings], PolicyRule] = {}
    faulty = problems.faulty_rules()
    for rule in rules:
        first = said.setdefault((rule.app, rule.scope, rule.settings), rule)
        if first is not rule and rule.name not in faulty:
            expected = f"a rule that differs from {_placed(first, rule)}; set modes of single apps in the rollout"
            problems.add(rule.where, f"rules.{rule.name}", f"the same as {first.name}", expected)


def _find_refused(rules: list[PolicyRule], audiences: Audiences, problems: Problems) -> _Refused:
    refused = _Refused(audiences)
    for rule in rules:
        if isinstance(rule.settings, RefuseSettings | TransactionsSettings):
            commands = rule.settings.commands if isinstance(rule.settings, RefuseSettings) else _BEGINNINGS
            found = {name: each for each in commands for name in _names_refused(each)}
            key = "refuse" if isinstance(rule.settings, RefuseSettings) else "transactions"
            for name in found:
                by = refused.by(name, rule)
                if by is not None:
                    expected = f"each command refused once; {_placed(by, rule)} refuses it already"
                    _note(rule, key, name, expected, problems)
            for name in found:
                refused.by_command.setdefault(name, []).append(rule)
    return refused


def _names_refused(command: str) -> set[str]:
    entry = entry_of(command, STANDARD)
    if entry.words:
        return {command}
    return {command} | {spec.display for spec in covered(STANDARD.find(command), STANDARD)}


def _check_allowed(rules: list[PolicyRule], refused: _Refused, problems: Problems) -> None:
    for rule in rules:
        for command in rule.settings.commands if isinstance(rule.settings, AllowOnlySettings) else ():
            by = refused.by(command, rule)
            if by is not None:
                expected = f"a command that is not refused; {_placed(by, rule)} refuses it"
                _note(rule, "allow_only", command, expected, problems)


def _check_walks(rules: list[PolicyRule], refused: _Refused, problems: Problems) -> None:
    for rule in rules:
        by = refused.by("KEYS", rule) if isinstance(rule.settings, KeysByScanSettings) else None
        if by is not None:
            expected = f"only one of the two rules: {by.name} refuses KEYS, {rule.name} answers it"
            _note(rule, "keys_by_scan", f"a conflict with {_placed(by, rule)}", expected, problems)


def _check_prefixes(policy: Policy, rules: list[PolicyRule], problems: Problems) -> None:
    """Note prefixes of unknown apps, and of apps that are only claimed."""
    proven = [app.name for app in policy.apps if app.proven]
    for rule in rules:
        for app, _ in rule.settings.prefixes if isinstance(rule.settings, NamesSettings) else ():
            if app not in {*proven, DEFAULT_PREFIXES}:
                known = ", ".join((*proven, DEFAULT_PREFIXES))
                expected = f"an app that is matched by more than its client name, or {DEFAULT_PREFIXES}: {known}"
                _note(rule, "names.prefixes", shown(app), expected, problems)


def _check_replaced(rules: list[PolicyRule], refused: _Refused, audiences: Audiences, problems: Problems) -> None:
    pairs = [
        (rule, pair) for rule in rules if isinstance(rule.settings, ReplaceSettings) for pair in rule.settings.pairs
    ]

    def replacing(command: str, rule: PolicyRule, among: list[tuple[PolicyRule, tuple[str, str]]]) -> PolicyRule | None:
        mine = audiences[rule.name]
        return next((each for each, (old, _) in among if old == command and mine & audiences[each.name]), None)

    for i, (rule, (command, _)) in enumerate(pairs):
        first = replacing(command, rule, pairs[:i])
        if first is not None:
            expected = f"each command replaced once; {_placed(first, rule)} replaces it already"
            _note(rule, "replace", command, expected, problems)
    for rule, (command, target) in pairs:
        for each in (command, target):
            by = refused.by(each, rule)
            if by is not None:
                expected = f"a command that is not refused; {_placed(by, rule)} refuses it"
                _note(rule, "replace", each, expected, problems)
        other = replacing(target, rule, pairs)
        if other is not None:
            expected = f"a command that is not replaced itself; {_placed(other, rule)} replaces it"
            _note(rule, "replace", target, expected, problems)


def _placed(other: PolicyRule, rule: PolicyRule) -> str:
    """The other rule's name and place, for an error about `rule`."""
    same = other.where.file == rule.where.file
    return f"{other.name} ({f'line {other.where.line}' if same else other.where})"


def _note(rule: PolicyRule, key: str, found: str, expected: str, problems: Problems) -> None:
    problems.add(rule.where, f"rules.{rule.name}.{key}", found, expected)
