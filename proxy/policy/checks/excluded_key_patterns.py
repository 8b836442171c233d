"""Patterns that can never match, because enforced name rules exclude all their keys: schema entries, and keys of rules.

Only certain cases are reported: the name rules are enforced for all clients' writes and all keys. They are checked
together, since a key must meet all of them. The allowed prefixes depend on the client; if every client has some, a key
must have one of all listed prefixes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from proxy.hotpath.plan.automaton import Automaton
from proxy.policy.checks.unreachable_rules import globs_of
from proxy.policy.model import Mode, Policy, PolicyRule
from proxy.policy.precedence import effective_mode, is_active
from proxy.policy.sections.schema import PlacedEntry
from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.yaml_source import Problems
from proxy.rules.key_globs import KeyGlob
from proxy.rules.name_language import MOST_STATES, TooIntricateError, Walked
from proxy.rules.names.joint import JointStandard, join_standards
from proxy.rules.names.rule import DEFAULT_PREFIXES, NamesSettings
from proxy.rules.rule import RuleSettings


def find_excluded_key_patterns(policy: Policy, placed: Sequence[PlacedEntry], problems: Problems) -> None:
    """Note each entry with keys that no client may write, and each rule's pattern with keys that no client may use."""
    faulty = problems.faulty_rules()
    sound = [rule for rule in policy.rules if rule.name not in faulty]
    held = {rule.name: _asked(rule.settings) for rule in sound if _holds(policy, rule)}
    joint = join_standards(held.values()) if held else None
    if joint is not None and policy.schema.entries:
        _check_entries(policy, placed, held, joint, problems)
    always = {rule.name: held[rule.name] for rule in sound if rule.name in held and _is_for_all(rule.settings)}
    joint = join_standards(always.values()) if always else None
    for rule in (each for each in sound if joint is not None and is_active(policy, each)):
        for glob in globs_of(rule):
            if joint is not None and not joint.is_met_with([KeyGlob.of(glob).machine]):
                by = " and ".join(f"{each.name} ({each.where})" for each in sound if each.name in always)
                problems.add(rule.where, f"rules.{rule.name}", shown(glob), f"a pattern with a key that {by} lets pass")


def _check_entries(
    policy: Policy,
    placed: Sequence[PlacedEntry],
    held: Mapping[str, NamesSettings],
    joint: JointStandard,
    problems: Problems,
) -> None:
    numbers = {entry: number for number, entry in enumerate(policy.schema.entries)}
    places = {rule.name: rule.where for rule in policy.rules}
    automaton = policy.schema.automaton
    left = _owners(automaton, joint, frozenset(numbers.values()))
    excluded = [each for each in placed if numbers[each.entry] not in left]
    alone: dict[int, str] = {}  # the first rule that excludes an entry by itself
    unexplained = frozenset(numbers[each.entry] for each in excluded)
    for name, standard in held.items():
        single = join_standards([standard]) if unexplained else None
        if single is not None:
            by_this = unexplained - _owners(automaton, single, unexplained)
            alone |= dict.fromkeys(by_this, name)
            unexplained -= by_this
    for each in excluded:
        number = numbers[each.entry]
        by = " and ".join(f"{name} ({places[name]})" for name in ([alone[number]] if number in alone else held))
        expected = f"a pattern with a key that {by} lets pass"
        problems.add(each.where, each.path, shown(each.entry.pattern.text), expected)


def _holds(policy: Policy, rule: PolicyRule) -> bool:
    """Whether the rule is enforced for all clients' writes and all keys."""
    if not isinstance(rule.settings, NamesSettings) or not rule.settings.writes or rule.app:
        return False
    effective_modes = (effective_mode(policy, rule, app, paused=False) for app in (None, *policy.apps))
    return all(not each.varies and each.stage.mode is Mode.ENFORCE for each in effective_modes)


def _is_for_all(settings: RuleSettings) -> bool:
    return isinstance(settings, NamesSettings) and settings.reads and settings.writes


def _asked(settings: RuleSettings) -> NamesSettings:
    """The standard for a key without the parts about the schema: the schema itself is checked here."""
    assert isinstance(settings, NamesSettings)
    listed = dict(settings.prefixes)
    prefixes = tuple(prefix for each in listed.values() for prefix in each) if DEFAULT_PREFIXES in listed else ()
    return replace(settings, prefixes=((DEFAULT_PREFIXES, prefixes),), in_schema=False, owned=False)


def _owners(schema: Automaton, standard: JointStandard, wanted: frozenset[int]) -> frozenset[int]:
    """The entries that own a name that meets the standard; all of them if the search takes too long."""
    walked = Walked(schema)
    missing = set(wanted)
    try:
        for state in standard.endings([walked], MOST_STATES):
            missing.discard(walked.owner(state[0]))
            if not missing:
                break
    except TooIntricateError:
        return wanted
    return wanted - missing
