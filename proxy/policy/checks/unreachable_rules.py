"""Parts of a policy that have no effect. Each is an error, since its author relies on it.

- a rule if an earlier rule refuses all its commands, in an equally strict mode, for all its clients;
- a share of keys (``enforce 10%``) of a rule about commands without keys;
- an exception for keys that the rule is not about, or that an earlier exception exempts already;
- an app if all its clients match another app first;
- ``in_scripts: audit`` of a rule that scripts do not follow;
- a quota of owners if no app owns keys.

Rules with other problems are left out.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, product

from proxy.commands.rows import ROWS
from proxy.commands.table import STANDARD, Spec
from proxy.policy.apps import App, Match, covers_text
from proxy.policy.key_owners import KeyOwners
from proxy.policy.model import Mode, Policy, PolicyException, PolicyRule, Stage
from proxy.policy.precedence import EffectiveMode, audience, effective_mode
from proxy.policy.script_call_rules import holds_scripts
from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.yaml_source import Problems
from proxy.rules.allow_only.rule import AllowOnlySettings
from proxy.rules.lifetime.settings import LifetimeSettings
from proxy.rules.limits.rule import LimitsSettings
from proxy.rules.lowering import Lowering
from proxy.rules.order import parts_of, place_of
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.replica_reads.rule import ReplicaReadsSettings
from proxy.rules.rule import Binding, Rule
from proxy.rules.scripts.rule import ScriptsSettings

_WALKS = frozenset(row.name for row in ROWS.values() if row.walks_keys)
"""Commands without keys that exceptions for keys exempt nevertheless, by their patterns."""


def find_unreachable(policy: Policy, problems: Problems) -> None:
    """Note every part that has no effect."""
    _check_apps(policy.apps, problems)
    faulty = problems.faulty_rules()
    sound = [rule for rule in policy.rules if rule.name not in faulty and not _is_off(rule)]
    binding = Binding(STANDARD, schema=policy.schema)
    bound = {rule.name: rule.settings.bind(rule.name, rule.wording, binding) for rule in sound}
    touched = {
        rule.name: frozenset[int]().union(
            *(_touched(part.bind(rule.name, rule.wording, binding)) for part in parts_of(rule.settings))
        )
        for rule in sound
    }
    _check_rules(policy, sound, bound, touched, problems)
    _check_in_scripts(policy, sound, bound, problems)
    _check_quotas(policy, sound, problems)
    with_keys = frozenset(spec.id for spec in STANDARD.specs if spec.may_have_keys)
    walks = frozenset(spec.id for spec in STANDARD.specs if spec.name in _WALKS)
    # A rule without any command, such as `schema: ttl` if no entry has a TTL, is reported elsewhere.
    keyless = {name for name, commands in touched.items() if commands and not commands & with_keys}
    _check_shares(policy, keyless, problems)
    deaf = {name for name in keyless if not touched[name] & walks}
    for rule in sound:
        if rule.scope.by_key and rule.name in deaf:
            key, found = ("keys", rule.scope.keys) if rule.scope.keys else ("except", rule.scope.without)
            expected = f"a rule without {key}: its commands have no keys"
            problems.add(rule.where, f"rules.{rule.name}.{key}", shown(", ".join(found)), expected)
    _check_exceptions(policy, deaf, problems)


def _check_quotas(policy: Policy, rules: Sequence[PolicyRule], problems: Problems) -> None:
    judging = [rule for rule in rules if rule.settings.judges_by_scan]
    if judging and not KeyOwners(policy).has_apps:
        expected = "an app that owns keys: by the schema, or by the prefixes of a names rule"
        for rule in judging:
            problems.add(rule.where, f"rules.{rule.name}", "a rule about the keys that apps own", expected)


def _is_off(rule: PolicyRule) -> bool:
    return rule.mode is not None and rule.mode.mode is Mode.OFF


def _touched(rule: Rule) -> Iterator[int]:
    return (spec.id for spec in STANDARD.specs if spec.id and rule.touches(spec))


# Rules


def _check_rules(
    policy: Policy,
    rules: Sequence[PolicyRule],
    bound: dict[str, Rule],
    touched: dict[str, frozenset[int]],
    problems: Problems,
) -> None:
    refusing = {
        rule.name: frozenset(spec.id for spec in STANDARD.specs if spec.id and _refuses_all(bound[rule.name], spec))
        for rule in rules
        if isinstance(rule.settings, RefuseSettings | AllowOnlySettings)
    }
    if not refusing:
        return
    effective_modes = {
        rule.name: [
            effective_mode(policy, rule, app, paused=False)
            for app in (None, *policy.apps)
            if rule.app in {"", "" if app is None else app.name}
        ]
        for rule in rules
    }
    ordered = sorted(rules, key=lambda rule: place_of(rule.settings))
    for rule in ordered:
        earlier = [each for each in ordered[: ordered.index(rule)] if each.name in refusing]
        takers: dict[str, PolicyRule] = {}
        commands = touched[rule.name]
        if not commands or rule.app or not any(map(_speaks, effective_modes[rule.name])):
            continue
        for i, mine in enumerate(effective_modes[rule.name]):
            if not _speaks(mine):
                continue
            before = [each for each in earlier if not each.app and _silences(effective_modes[each.name][i], mine)]
            if not commands <= frozenset[int]().union(*(refusing[each.name] for each in before)):
                break
            takers |= {each.name: each for each in before if refusing[each.name] & commands}
        else:
            by = ", ".join(f"{each.name} ({each.where})" for each in takers.values())
            expected = f"a command that no earlier rule refuses; {by} refuses all its commands"
            problems.add(rule.where, f"rules.{rule.name}", "a rule that can never apply", expected)


def _refuses_all(rule: Rule, spec: Spec) -> bool:
    """Whether every request of this command is refused."""
    lowering = Lowering(spec)
    lowering.enforced = True
    if rule.touches(spec):
        rule.lower(spec, lowering)
    return lowering.does == "refused"


def _speaks(effective: EffectiveMode) -> bool:
    return effective.varies or effective.stage.mode is not Mode.OFF


def _silences(one: EffectiveMode, other: EffectiveMode) -> bool:
    return not one.varies and one.stage.mode is not Mode.OFF and one.stage.tightens(other.stage)


def _check_in_scripts(policy: Policy, rules: Sequence[PolicyRule], bound: dict[str, Rule], problems: Problems) -> None:
    followed = [rule for rule in rules if isinstance(rule.settings, ScriptsSettings) and rule.settings.follow_rules]
    held_to = frozenset[str]().union(*(audience(policy, rule) for rule in followed))
    for rule in rules:
        if not rule.audits_scripts:
            continue
        path = f"rules.{rule.name}.in_scripts"
        if not holds_scripts(bound[rule.name]):
            expected = "in_scripts on a rule about commands or keys; scripts do not follow this rule"
            problems.add(rule.where, path, "audit", expected)
        elif not audience(policy, rule) & held_to:
            expected = "a rule with scripts: {commands: follow_rules}; without it no script follows any rule"
            problems.add(rule.where, path, "audit", expected)


# Modes and exceptions


def _check_shares(policy: Policy, keyless: set[str], problems: Problems) -> None:
    for rule in policy.rules:
        line = policy.rollout.get(rule.name)
        placed: list[tuple[Stage | None, str]] = [(rule.mode, f"rules.{rule.name}.mode")]
        if line is not None:
            placed += [(stage, f"rollout.{rule.name}") for stage in (line.default, *line.apps.values())]
        own = (stage for (name, _), stage in policy.tightened.items() if name == rule.name)
        placed += [(stage, f"rollout.{rule.name}") for stage in own]
        for stage, path in placed:
            if rule.name in keyless and stage is not None and stage.share < 1:
                expected = "a mode without a share of keys: its commands have no keys"
                problems.add(stage.where, path, str(stage), expected)


def _check_exceptions(policy: Policy, deaf: set[str], problems: Problems) -> None:
    rules = {rule.name: rule for rule in policy.rules}
    for i, exception in enumerate(policy.exceptions):
        path = f"exceptions[{i}]"
        if exception.keys and exception.rule in deaf:
            expected = f"no keys: the commands of {exception.rule} have none"
            problems.add(exception.where, f"{path}.keys", exception.keys, expected)
        elif exception.keys and exception.rule in rules:
            globs = globs_of(rules[exception.rule])
            if globs and all(_disjoint(glob, exception.keys) for glob in globs):
                expected = f"some of the keys that {exception.rule} is about: {', '.join(globs)}"
                problems.add(exception.where, f"{path}.keys", exception.keys, expected)
        own = rules[exception.rule].app if exception.rule in rules else ""
        if own and exception.app not in {"", own}:
            expected = f"{own}; {exception.rule} is a rule of that app only"
            problems.add(exception.where, f"{path}.app", exception.app, expected)
        for j, earlier in enumerate(policy.exceptions[:i]):
            if _takes_up(earlier, exception):
                expected = f"commands or keys that exceptions[{j}] ({earlier.where}) does not exempt"
                problems.add(exception.where, path, "an exception that can never apply", expected)
                break


def globs_of(rule: PolicyRule) -> tuple[str, ...]:
    """The patterns of keys that a rule is about; none if it is about all keys."""
    match rule.settings:
        case LifetimeSettings(keys=keys) | ReplicaReadsSettings(keys=keys) | LimitsSettings(keys=keys):
            return keys
        case _:
            return rule.scope.keys


def _disjoint(one: str, other: str) -> bool:
    """Whether no key matches both, as far as their beginnings tell."""
    first, second = _beginning(one), _beginning(other)
    return not first.startswith(second) and not second.startswith(first)


def _beginning(glob: str) -> str:
    return glob.partition("*")[0]


def _takes_up(earlier: PolicyException, later: PolicyException) -> bool:
    """Whether the earlier exception covers everything that the later one is about."""
    if earlier.rule != later.rule or earlier.app not in {"", later.app} or not _covers(earlier.keys, later.keys):
        return False
    outlives = later.until is not None and earlier.until is not None and later.until <= earlier.until
    return earlier.until is None or earlier.then is not None or (outlives and later.then is None)


# Apps


def _check_apps(apps: Sequence[App], problems: Problems) -> None:
    # A pattern without `*` matches only itself, so of apps with such patterns few can match another app's clients.
    exact: dict[Match | None, list[int]] = defaultdict(list)
    for i, app in enumerate(apps):
        exact[app.match if app.match.is_exact else None].append(i)
    for i, app in enumerate(apps):
        match = app.match
        fewer = product(*(((), each) for each in match.patterns))
        wider = {Match(user, name, listener, certificate) for user, name, listener, certificate in fewer} - {match}
        for j in sorted(chain.from_iterable(exact.get(each, ()) for each in (None, *wider))):
            other = apps[j]
            ahead = (not other.proven, -other.match.conditions, j) < (not app.proven, -match.conditions, i)
            if ahead and other.match != match and other.match.covers(match):
                expected = f"clients that {other.name} ({other.where}) does not match first"
                problems.add(app.where, f"apps.{app.name}.match", "an app that no client can match", expected)
                break


def _covers(general: str, special: str) -> bool:
    """Whether the general pattern matches every key that the special one matches; an empty one matches any."""
    return not general or covers_text(general, special)
