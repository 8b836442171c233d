"""Evidence -> a learnt policy.

1. Shapes become patterns, and what is known of each shape goes to the patterns that own its keys.
2. Every recorded command is judged with every rule enforced. What refuses or changes one is loosened, in the end left
   out, until nothing does.
3. The policy says in its comments what was judged, and what could not be.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.table import STANDARD
from proxy.hotpath.plan.automaton import NOBODY
from proxy.policy.apps import UNKNOWN
from proxy.policy.expectations import run_tests
from proxy.policy_yaml.fields import write_duration
from proxy.schema.automaton import compile_patterns
from proxy.schema.patterns import Pattern, parse_pattern
from proxy.server.evidence.judging import PolicyForApps
from proxy.server.evidence.learn.entries import LearntEntry, name_of, unique
from proxy.server.evidence.learn.facts import Facts
from proxy.server.evidence.learn.families import has_words, patterns_of
from proxy.server.evidence.learn.gather import Gathered, gather
from proxy.server.evidence.learn.judging import loaded
from proxy.server.evidence.learn.text import (
    LIFETIMES,
    NAMES,
    SIZES,
    TYPES,
    LearntCommands,
    LearntPolicy,
    LearntTest,
    amount,
    listed,
)
from proxy.server.evidence.model import Evidence
from proxy.server.evidence.sample_keys import keys_of
from proxy.traffic.exemplars import FILL

_BUDGET, _DETAILED_BUDGET = 40, 400
_APPS, _DETAILED_APPS = 20, 100
_TESTS, _DETAILED_TESTS = 2, 1
"""Tests of each entry."""
_LONGEST_TEST_VALUE, _LONGEST_TEST, _MOST_TEST_WORDS = 8, 160, 12
_EVERYTHING = "{any...}"
_PARTS = {TYPES: "type", SIZES: "size", LIFETIMES: "ttl"}
_LONGEST_NAME = 60
_ALWAYS = frozenset(row.display for row in ROWS.values() if row.needed or row.always_allowed)
_NO_KEY = b"learnt-no-such-key"
_PROBES = ("FLUSHALL", "KEYS *", "SHUTDOWN", "SWAPDB 0 1")
"""Commands of which one is probably in no application's list."""


class NoEvidenceError(Exception):
    """There is nothing to learn from; the text says what was looked for."""


@dataclass(slots=True)
class _Learning:
    """A policy while it is made. `owners` finds the entry of a key."""

    gathered: Gathered
    policy: LearntPolicy
    budget: int
    dropped: list[str] = field(default_factory=list)


def learn(evidence: Evidence, app: str = "", *, detail: bool = False) -> str:
    """The policy as text; with an `app` of the policy in force, for that app alone. Raises NoEvidenceError."""
    gathered = gather(evidence, app, _DETAILED_APPS if detail else _APPS)
    if not gathered.commands and not gathered.untold and not gathered.recorded:
        whose = f" of app {app}" if app else ""
        raise NoEvidenceError(f"there is no evidence of commands{whose}: nothing to learn from")
    learning = _Learning(gathered, LearntPolicy(), _DETAILED_BUDGET if detail else _BUDGET)
    policy = learning.policy
    policy.apps = gathered.clients.apps
    policy.about_apps = {each.name: _about_app(gathered, each.name) for each in policy.apps}
    policy.rules = [NAMES, TYPES, SIZES, LIFETIMES]
    _add_entries(learning, _patterns(learning, learning.budget))
    alone = bool(app) and _can_be_alone(learning, evidence, app)
    policy.only = [each.name for each in policy.apps] if alone else []
    _add_commands(learning, alone)
    judge = _loosen(learning)
    policy.tests = _tests(learning, judge, _DETAILED_TESTS if detail else _TESTS)
    policy.apart = _apart(gathered)
    policy.header = _header(learning, evidence, app)
    outcomes = run_tests(loaded(policy.text()), _newest(gathered)).outcomes
    policy.tests = [test for test, outcome in zip(policy.tests, outcomes, strict=True) if outcome.passed]
    return policy.text()


# What is learnt


def _patterns(learning: _Learning, budget: int) -> list[Pattern]:
    gathered = learning.gathered
    weights = {shape: facts.uses for shape, facts in gathered.shapes.items()}
    return patterns_of(weights, gathered.dates, gathered.literals, budget)


def _add_entries(learning: _Learning, patterns: Sequence[Pattern]) -> None:
    gathered, automaton = learning.gathered, compile_patterns(patterns)
    facts = [Facts() for _ in patterns]
    with_words = [False] * len(patterns)
    for shape, its in gathered.shapes.items():
        for owner in {automaton.owner(key) for key in (*gathered.keys.get(shape, ()), *keys_of(shape))} - {NOBODY}:
            facts[owner].add(its)
            with_words[owner] |= has_words(shape)
    taken: set[str] = set()
    in_order = sorted(zip(with_words, patterns, facts, strict=True), key=lambda each: (not each[0], each[1].text))
    learning.policy.entries = [
        LearntEntry(unique(name_of(pattern.text), taken), pattern, its, apart=not worded)
        for worded, pattern, its in in_order
    ]


def _add_commands(learning: _Learning, alone: bool) -> None:
    """An allow list for each app, and if the policy is not for one app `alone`, for clients of no app."""
    gathered, policy = learning.gathered, learning.policy
    lists: dict[frozenset[str], LearntCommands] = {}
    for name in (*(app.name for app in policy.apps), *(() if alone else (UNKNOWN,))):
        commands = _commands_of(learning, name)
        if name in gathered.commands and commands:
            lists.setdefault(frozenset(commands), LearntCommands("", [], Counter())).add(name, commands)
    taken: set[str] = set()
    for each in lists.values():
        whose = "others" if each.apps[0] == UNKNOWN else each.apps[0].replace("_", "-")
        each.rule = unique(f"commands-{whose}"[:_LONGEST_NAME].rstrip("-"), taken)
        if UNKNOWN in each.apps:
            policy.off[each.rule] = [app.name for app in policy.apps if app.proven and app.name not in each.apps]
    policy.commands = list(lists.values())


def _commands_of(learning: _Learning, name: str) -> Counter[str]:
    """The commands of an app's list; none if there can be no list."""
    gathered = learning.gathered
    claimed = [app.name for app in learning.policy.apps if not app.proven]
    # Clients that are only claimed can be exempted from no rule: the list for clients of no app is theirs, too.
    names = (UNKNOWN, *claimed) if name == UNKNOWN else (name,)
    commands: Counter[str] = Counter()
    for each in names:
        commands.update(gathered.commands.get(each, {}))
    odd = [command for command in commands if not _can_be_listed(command)]
    if not odd and gathered.untold.isdisjoint(names):
        return Counter({command: count for command, count in commands.items() if command not in _ALWAYS})
    why = f"commands that no list can name: {', '.join(odd)}" if odd else "commands that were not told apart"
    learning.dropped.append(f"No list of commands for {name}: it has {why}.")
    return Counter()


def _can_be_listed(command: str) -> bool:
    if STANDARD.find(command) is not None:
        return True
    return "." in command and "?" not in command and command.isascii() and command.isprintable() and " " not in command


def _can_be_alone(learning: _Learning, evidence: Evidence, app: str) -> bool:
    """Whether the policy can be about that app alone: its clients can be told from others."""
    clients = learning.gathered.clients
    whom = {key.who for rows in evidence.hours.values() for key in rows.commands if key.who.app == app}
    if clients.apps and all(who.folded or clients.app_of(who) is not None for who in whom):
        return True
    learning.dropped.append(f"Some clients of {app} have neither a user nor a name: the rules are for everybody.")
    return False


# Nothing is refused


def _loosen(learning: _Learning) -> PolicyForApps:
    """Loosen or drop what refuses or changes a recorded command, until nothing does; return the judge that says so."""
    policy = learning.policy
    while True:
        judge = PolicyForApps(loaded(policy.text()), 0)
        automaton = compile_patterns([entry.pattern for entry in policy.entries])
        hits: dict[str, set[int]] = {}
        for recorded in learning.gathered.recorded:
            for command in recorded.commands():
                for rule in judge.said(command, recorded.app, recorded.at):
                    if rule in policy.rules and not recorded.readable:
                        continue
                    owners = {automaton.owner(key.name) for key in command.known_keys}
                    hits.setdefault(rule, set()).update(owners)
        if not hits:
            return judge
        for rule, owners in hits.items():
            if rule == NAMES and _add_everything(learning):
                break  # the entries are others now
            part = _PARTS.get(rule, "")
            if not [each for each in owners - {NOBODY} if policy.entries[each].loosen(part)]:
                _drop(learning, rule)


def _drop(learning: _Learning, rule: str) -> None:
    policy = learning.policy
    learning.dropped.append(f"No rule {rule}: it would refuse or change what was seen.")
    policy.rules = [each for each in policy.rules if each != rule]
    policy.commands = [each for each in policy.commands if each.rule != rule]


def _add_everything(learning: _Learning) -> bool:
    """Add an entry for all other keys; False if there is one."""
    if any(map(_matches_all, (entry.pattern for entry in learning.policy.entries))):
        return False
    patterns = _patterns(learning, learning.budget - 1)
    everything = [] if any(map(_matches_all, patterns)) else [parse_pattern(_EVERYTHING)]
    _add_entries(learning, [*patterns, *everything])
    return True


def _matches_all(pattern: Pattern) -> bool:
    return pattern.text.startswith("{") and pattern.text.endswith("...}") and ":" not in pattern.text


# Tests


def _tests(learning: _Learning, judge: PolicyForApps, most: int) -> list[LearntTest]:
    policy = learning.policy
    automaton = compile_patterns([entry.pattern for entry in policy.entries])
    names: dict[int, set[str]] = {}
    tests: list[LearntTest] = []
    probe: LearntTest | None = None
    for recorded in sorted(learning.gathered.recorded, key=lambda each: not each.made.command.spec.creates):
        command = recorded.made.command
        keys = command.known_keys
        owner = automaton.owner(keys[0].name) if keys else NOBODY
        its = names.setdefault(owner, set())
        if owner == NOBODY or command.name in its or len(its) >= most or recorded.made.cut:
            continue
        test = LearntTest(_shortened(command), recorded.app)
        size = sum(map(len, test.argv))
        if (
            len(test.argv) > _MOST_TEST_WORDS
            or size > _LONGEST_TEST
            or judge.said(Command(STANDARD, test.argv), recorded.app, recorded.at)
        ):
            continue
        its.add(command.name)
        tests.append(test)
        if len(keys) == 1 and NAMES in policy.in_force() and automaton.owner(_NO_KEY) == NOBODY:
            probe = LearntTest([_NO_KEY if i == keys[0].index else a for i, a in enumerate(test.argv)], test.app, NAMES)
    refused = (_refused_by(each) for each in policy.commands)
    return [*tests, *([] if probe is None else [probe]), *(test for test in refused if test is not None)]


def _shortened(command: Command) -> list[bytes]:
    keys = {key.index for key in command.known_keys}
    return [
        b"x" * min(len(word), _LONGEST_TEST_VALUE) if i not in keys and word == FILL * len(word) else word
        for i, word in enumerate(command.argv)
    ]


def _refused_by(listed_commands: LearntCommands) -> LearntTest | None:
    for probe in _PROBES:
        words = probe.split()
        if words[0] not in listed_commands.commands:
            return LearntTest([word.encode() for word in words], listed_commands.apps[0], listed_commands.rule)
    return None


# Comments


def _newest(gathered: Gathered) -> float:
    return max((each.at for each in gathered.recorded), default=0.0)


def _about_app(gathered: Gathered, name: str) -> str:
    libraries: Counter[str] = Counter()
    for recorded in gathered.recorded:
        if recorded.app == name and recorded.who.library:
            libraries[recorded.who.library] += 1
    known = f"; {', '.join(sorted(libraries))}" if libraries else ""
    return f"{amount(gathered.commands.get(name, Counter()).total())} commands{known}"


def _apart(gathered: Gathered) -> list[str]:
    lines = [
        f"{shape or '(the empty key)'}: {amount(facts.uses)} uses of {listed(facts.writers + facts.readers)}"
        for shape, facts in gathered.shapes.items()
        if not has_words(shape)
    ]
    return [
        *lines,
        *(f"{amount(count)} commands of {app}, not told apart" for app, count in gathered.folded.most_common()),
    ]


def _header(learning: _Learning, evidence: Evidence, app: str) -> list[str]:
    gathered = learning.gathered
    recorded, total = gathered.recorded, amount(gathered.total)
    hidden = sum(each.made.hidden for each in recorded)
    cut = sum(each.made.cut for each in recorded)
    unread = sum(not each.readable for each in recorded)
    bare, folded = gathered.forms_without_exemplar, gathered.folded.total()
    notes = {
        f"Not judged: {bare} forms ({amount(gathered.unseen)} commands) without a recorded command.": bare,
        f"Not judged: {amount(folded)} commands that were not told apart.": folded,
        f"Not judged by rules about keys: {unread} recorded commands whose keys cannot be read.": unread,
        f"Judged in part: {cut} recorded commands of which only the first words are known.": cut,
        f"Keys are hidden in {hidden} recorded commands (traffic: redact): names were learnt from shapes only, and "
        "these commands were judged with made-up keys.": hidden,
        **{f"Lost: {amount(count)} of {reason}.": count for reason, count in sorted(evidence.lost.items())},
    }
    return [
        f"Learnt by keyrail learn from {total} commands{f' of {app}' if app else ''}, {_watched(evidence)}.",
        "Every rule is in audit. It describes what was seen, not what is right: read it, then enforce rule by rule.",
        f"Judged with every rule enforced: {gathered.forms - bare} forms, {len(recorded)} recorded commands.",
        "None of them is refused or changed.",
        f"Looked at: {amount(gathered.looked_at)} of {total} commands. Forms have numbers rounded up.",
        *(note for note, count in notes.items() if count),
        *learning.dropped,
    ]


def _watched(evidence: Evidence) -> str:
    if not evidence.spans:
        return "seen at unknown times"
    first, last = (datetime.fromtimestamp(at, UTC) for at in (evidence.spans[0][0], evidence.spans[-1][1]))
    seconds = round(sum(ended - began for began, ended in evidence.spans))
    return f"seen from {first:%Y-%m-%dT%H:%MZ} to {last:%Y-%m-%dT%H:%MZ} ({write_duration(seconds)} watched)"
