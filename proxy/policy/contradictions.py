"""What the rules of one policy may not say together. Rules that are off say nothing.

- a command refused twice: the second rule can never be the one that acts;
- a command refused, and allowed by name where nothing else is;
- a command refused and replaced, or replaced by one that is refused;
- KEYS refused, and answered by a walk;
- a command replaced twice, or by one that is itself replaced;
- prefixes for an application that there is not, or that anyone can claim to be;
- two lifetimes for all keys, or two by the schema: once the first has given a TTL, the second finds nothing to do (each
  with keys of its own, they may stand side by side);
- a rule that says the same as another;
- a rule about the schema in a policy that has none, or none that says anything of the kind.
"""

from collections.abc import Callable

from proxy.commands.table import STANDARD
from proxy.policy.errors import shown
from proxy.policy.model import Mode, Policy, PolicyRule
from proxy.policy.yaml_source import Problems
from proxy.rules.allow_only import AllowOnlySettings
from proxy.rules.keys_by_scan import KeysByScanSettings
from proxy.rules.lifetime import LifetimeSettings
from proxy.rules.listing import covered, entry_of
from proxy.rules.names import DEFAULT_PREFIXES, NamesSettings
from proxy.rules.refuse import RefuseSettings
from proxy.rules.replace import ReplaceSettings
from proxy.rules.rule import Settings
from proxy.rules.schema_size import SchemaSizeSettings
from proxy.rules.schema_ttl import SchemaTtlSettings
from proxy.rules.schema_type import SchemaTypeSettings
from proxy.rules.transactions import TransactionsSettings
from proxy.schema.entries import NO_SCHEMA, KeyEntry

_BEGINNINGS = ("MULTI", "WATCH")


def find_contradictions(policy: Policy, problems: Problems) -> None:
    """Note every contradiction, at the rule that comes second in the file."""
    rules = [rule for rule in policy.rules if rule.mode is None or rule.mode.mode is not Mode.OFF]
    refused = _find_refused(rules, problems)
    _check_allowed(rules, refused, problems)
    _check_replaced(rules, refused, problems)
    _check_walks(rules, refused, problems)
    _check_prefixes(policy, rules, problems)
    _check_lifetimes(rules, problems)
    _check_repeated(rules, problems)
    for rule in rules:
        key, part = _asks_about_schema(rule.settings)
        if key and policy.schema is NO_SCHEMA:
            _note(rule, key, "a rule about the schema", "a schema, which this policy has not", problems)
        elif part and policy.schema.entries and not any(map(_PARTS[part], policy.schema.entries)):
            _note(rule, key, shown(part), f"some entry of the schema to have a {part}; none has", problems)


_PARTS: dict[str, Callable[[KeyEntry], object]] = {
    "type": lambda entry: entry.type,
    "size": lambda entry: entry.size,
    "ttl": lambda entry: entry.lifetime,
}


def _asks_about_schema(settings: Settings) -> tuple[str, str]:
    """The key under which a rule does so, if it does, and what entries must have for it to say anything."""
    match settings:
        case SchemaTypeSettings():
            return "schema", "type"
        case SchemaSizeSettings():
            return "schema", "size"
        case SchemaTtlSettings():
            return "schema", "ttl"
        case NamesSettings(in_schema=True):
            return "names.in_schema", ""
        case _:
            return "", ""


def _check_lifetimes(rules: list[PolicyRule], problems: Problems) -> None:
    for_all = [rule for rule in rules if isinstance(rule.settings, LifetimeSettings) and not rule.settings.keys]
    by_schema = [rule for rule in rules if isinstance(rule.settings, SchemaTtlSettings)]
    for key, found in (("lifetime", for_all), ("schema", by_schema)):
        for rule in found[1:]:
            expected = f"one; {_placed(found[0])} is about the same keys"
            _note(rule, key, "a second lifetime", expected, problems)


def _check_repeated(rules: list[PolicyRule], problems: Problems) -> None:
    """The same said twice is two counts of one thing, and the second is never the one that acts."""
    said: dict[tuple[str, Settings], PolicyRule] = {}
    faulty = problems.faulty_rules()
    for rule in rules:
        first = said.setdefault((rule.app, rule.settings), rule)
        if first is not rule and rule.name not in faulty:
            expected = f"something that {_placed(first)} does not say; its mode for single apps stands in the rollout"
            problems.add(rule.where, f"rules.{rule.name}", f"the same as {first.name}", expected)


def _find_refused(rules: list[PolicyRule], problems: Problems) -> dict[str, PolicyRule]:
    refused: dict[str, PolicyRule] = {}
    for rule in rules:
        if isinstance(rule.settings, RefuseSettings | TransactionsSettings):
            commands = rule.settings.commands if isinstance(rule.settings, RefuseSettings) else _BEGINNINGS
            found = {name: each for each in commands for name in _names_refused(each)}
            key = "refuse" if isinstance(rule.settings, RefuseSettings) else "transactions"
            for name in found:
                if name in refused and rule.app in {"", refused[name].app}:
                    expected = f"each command refused once; {_placed(refused[name])} refuses it already"
                    _note(rule, key, name, expected, problems)
            refused |= {name: rule for name in found if name not in refused}
    return refused


def _names_refused(command: str) -> set[str]:
    entry = entry_of(command, STANDARD)
    if entry.words:
        return {command}
    return {command} | {spec.display for spec in covered(STANDARD.find(command), STANDARD)}


def _check_allowed(rules: list[PolicyRule], refused: dict[str, PolicyRule], problems: Problems) -> None:
    for rule in rules:
        for command in rule.settings.commands if isinstance(rule.settings, AllowOnlySettings) else ():
            if command in refused:
                expected = f"a command that is not refused; {_placed(refused[command])} refuses it"
                _note(rule, "allow_only", command, expected, problems)


def _check_walks(rules: list[PolicyRule], refused: dict[str, PolicyRule], problems: Problems) -> None:
    for rule in rules:
        if isinstance(rule.settings, KeysByScanSettings) and "KEYS" in refused:
            expected = f"KEYS not refused; {_placed(refused['KEYS'])} refuses it"
            _note(rule, "keys_by_scan", "an answer to KEYS", expected, problems)


def _check_prefixes(policy: Policy, rules: list[PolicyRule], problems: Problems) -> None:
    """Who merely claims to be an application must not get its prefixes."""
    proven = [app.name for app in policy.apps if app.proven]
    for rule in rules:
        for app, _ in rule.settings.prefixes if isinstance(rule.settings, NamesSettings) else ():
            if app not in {*proven, DEFAULT_PREFIXES}:
                known = ", ".join((*proven, DEFAULT_PREFIXES))
                expected = f"an app that is known by more than its client name, or {DEFAULT_PREFIXES}: {known}"
                _note(rule, "names.prefixes", shown(app), expected, problems)


def _check_replaced(rules: list[PolicyRule], refused: dict[str, PolicyRule], problems: Problems) -> None:
    pairs = [
        (rule, pair) for rule in rules if isinstance(rule.settings, ReplaceSettings) for pair in rule.settings.pairs
    ]
    replaced: dict[str, PolicyRule] = {}
    for rule, (command, _) in pairs:
        if command in replaced:
            expected = f"each command replaced once; {_placed(replaced[command])} replaces it already"
            _note(rule, "replace", command, expected, problems)
        replaced.setdefault(command, rule)
    for rule, (command, target) in pairs:
        for each in (command, target):
            if each in refused:
                _note(
                    rule,
                    "replace",
                    each,
                    f"a command that is not refused; {_placed(refused[each])} refuses it",
                    problems,
                )
        if target in replaced:
            expected = f"a command that is not replaced itself; {_placed(replaced[target])} replaces it"
            _note(rule, "replace", target, expected, problems)


def _placed(rule: PolicyRule) -> str:
    return f"{rule.name} (line {rule.where.line})"


def _note(rule: PolicyRule, key: str, found: str, expected: str, problems: Problems) -> None:
    problems.add(rule.where, f"rules.{rule.name}.{key}", found, expected)
