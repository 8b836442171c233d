"""Patterns that can never match, for no enforced rules for names let pass a key of theirs: entries of the schema, and
the keys of rules.

Only what is certain is said: the rules are enforced for everybody's writes, whatever the key, and are looked at all
together, since a key has to meet each of them. Whose prefixes a key must have depends on who writes it; where everybody
has some, it is one of all that are listed.
"""

from collections.abc import Sequence
from dataclasses import replace

from proxy.commands.table import STANDARD
from proxy.hotpath.automaton import Automaton
from proxy.policy.checks.unreachable_rules import globs_of
from proxy.policy.model import Mode, Policy, PolicyRule
from proxy.policy.precedence import effective_mode, is_active
from proxy.policy.sections.schema import PlacedEntry
from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.yaml_source import Problems
from proxy.rules.key_globs import KeyGlob
from proxy.rules.lowering import NameCheck
from proxy.rules.name_language import TooIntricateError, Walked, endings
from proxy.rules.names.rule import DEFAULT_PREFIXES, NamesSettings
from proxy.rules.rule import Binding, Wording


def find_excluded_key_patterns(policy: Policy, placed: Sequence[PlacedEntry], problems: Problems) -> None:
    """Note each entry to whose keys nobody may write, and each rule's pattern of keys that nobody may use at all."""
    faulty = problems.faulty_rules()
    sound = [rule for rule in policy.rules if rule.name not in faulty]
    held = [(rule, _check(rule.settings)) for rule in sound if _holds(policy, rule)]
    if held and policy.schema.entries:
        _check_entries(policy, placed, {rule.name: check for rule, check in held}, problems)
    always = [check for _, check in held if check.reads and check.writes]
    for rule in (each for each in sound if always and is_active(policy, each)):
        for glob in globs_of(rule.settings):
            if not _fits_some(glob, always):
                by = " and ".join(f"{each.name} ({each.where})" for each, check in held if check in always)
                problems.add(rule.where, f"rules.{rule.name}", shown(glob), f"a pattern with a key that {by} lets pass")


def _fits_some(glob: str, checks: Sequence[NameCheck]) -> bool:
    """Whether some name that all checks pass fits, or that takes too long to find out."""
    machines = [KeyGlob.of(glob).machine, *(each for check in checks for each in check.machines)]
    try:
        return any(True for _ in endings(machines, *_lengths(checks)))
    except TooIntricateError:
        return True


def _lengths(checks: Sequence[NameCheck]) -> tuple[int, int]:
    """The least and the most that all of them pass."""
    return max(check.min_length for check in checks), min(check.max_length for check in checks)


def _check_entries(
    policy: Policy, placed: Sequence[PlacedEntry], checks: dict[str, NameCheck], problems: Problems
) -> None:
    numbers = {entry: number for number, entry in enumerate(policy.schema.entries)}
    places = {rule.name: rule.where for rule in policy.rules}
    automaton, everyone = policy.schema.automaton, frozenset(numbers.values())
    left = _owners(automaton, [*checks.values()], everyone)
    for each in placed:
        number = numbers[each.entry]
        if number not in left:
            alone = [name for name, check in checks.items() if not _owners(automaton, [check], {number})]
            by = " and ".join(f"{name} ({places[name]})" for name in alone[:1] or checks)
            expected = f"a pattern with a key that {by} lets pass"
            problems.add(each.where, each.path, shown(each.entry.pattern.text), expected)


def _holds(policy: Policy, rule: PolicyRule) -> bool:
    """Whether the rule is enforced for everybody's writes, whatever the key."""
    if not isinstance(rule.settings, NamesSettings) or not rule.settings.writes or rule.app:
        return False
    effective_modes = (effective_mode(policy, rule, app, paused=False) for app in (None, *policy.apps))
    return all(not each.varies and each.stage.mode is Mode.ENFORCE for each in effective_modes)


def _check(settings: object) -> NameCheck:
    """What a key must be like whoever writes it; the schema is what is looked at."""
    assert isinstance(settings, NamesSettings)
    listed = dict(settings.prefixes)
    prefixes = tuple(prefix for each in listed.values() for prefix in each) if DEFAULT_PREFIXES in listed else ()
    everybodys = replace(settings, prefixes=((DEFAULT_PREFIXES, prefixes),), in_schema=False)
    return everybodys.bind("", Wording(), Binding(STANDARD)).check


def _owners(schema: Automaton, checks: Sequence[NameCheck], wanted: frozenset[int] | set[int]) -> frozenset[int]:
    """Which of these entries own a name that all checks pass; all of them if that takes too long to find out."""
    walked = Walked(schema)
    missing = set(wanted)
    try:
        for state in endings([walked, *(each for check in checks for each in check.machines)], *_lengths(checks)):
            missing.discard(walked.owner(state[0]))
            if not missing:
                break
    except TooIntricateError:
        return frozenset(wanted)
    return frozenset(wanted) - missing
