"""`diff` against brute force: every command is judged under both policies by each rule, and what is read of their forms
must agree, exactly for rules that judge by the form, within the stated bounds for the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.policy.apps import App, Match
from proxy.policy.model import Mode, Policy, PolicyException, PolicyRule, Stage
from proxy.policy.scope import Scope
from proxy.policy_yaml.errors import Where
from proxy.rules.judged_by import JudgedBy
from proxy.rules.rule import RuleSettings, Wording
from proxy.server.evidence import diff as module
from proxy.server.evidence.diff import PolicyDiff, diff
from proxy.server.evidence.judging import PolicyForApps, Said
from proxy.server.evidence.model import Evidence
from proxy.traffic.command_form import exemplar, form_of
from proxy.traffic.evidence_rows import (
    CommandKey,
    EvidenceRows,
    FormKey,
    FormRow,
    Identity,
)
from proxy.traffic.exemplars import remade
from proxy.traffic.redaction import Redact, Redaction
from tests.conftest import seeds
from tests.policy.given import policy
from tests.rules.test_judged_by import SCHEMA, SETTINGS, generated, shape_of, varied

HERE = Where("test")
SHOWN = Redaction(Redact.NONE)
NOW = 1_764_500_000.0
APPS = (
    App("shop", HERE, "team-shop", "#shop", match=Match(user=("shop",))),
    App("jobs", HERE, match=Match(client_name=("job-*",))),
)
FIRST, SECOND = Identity("shop", "shop", "web"), Identity("jobs", "default", "job-{int}")
OTHERS = Identity("unknown", "default")

Change = tuple[str, str, str, str]
"""App, kind, rule and what was before."""


def policy_of(rules: list[tuple[str, RuleSettings, Mode]], exceptions: tuple[PolicyException, ...] = ()) -> Policy:
    named = tuple(PolicyRule(name, settings, Stage(mode, HERE), Wording(), HERE) for name, settings, mode in rules)
    return Policy("test", named, schema=SCHEMA, apps=APPS, exceptions=exceptions)


def recorded(commands: list[tuple[Identity, Command]], redaction: Redaction = SHOWN, at: float = NOW) -> Evidence:
    """The evidence of these commands, as it is recorded."""
    rows = EvidenceRows()
    for who, command in commands:
        key = FormKey(who, command.name, shape_of(command), form_of(command))
        rows.forms.setdefault(key, FormRow()).add(FormRow(1, 1, [exemplar(command, redaction, at)]))
        counted = CommandKey(who, command.name)
        rows.commands[counted] = rows.commands.get(counted, 0) + 1
        at += 0.001
    return Evidence(hours={(0, "default"): rows})


def brute_force(commands: list[tuple[Identity, Command]], old: Policy, new: Policy) -> Counter[Change]:
    """Every change, by judging every command with every rule that keeps no state."""
    found: Counter[Change] = Counter()
    sides = PolicyForApps(old, NOW), PolicyForApps(new, NOW)
    for who, command in commands:
        rules = [side.rules_for(who.app) for side in sides]
        for name in rules[0].keys() | rules[1].keys():
            parts = [its[name] for its in rules if name in its]
            if any(part.judged_by(command.spec) is JudgedBy.STATE for part in parts):
                continue  # what it does depends on what the commands before have left
            said = [its[name].says(command, who.user, who.name, NOW) if name in its else Said() for its in rules]
            kind, before = module._change(*said)
            if kind:
                found[who.app, kind, name[0], before] += 1
    return found


def random_policies(random: Random) -> tuple[Policy, Policy]:
    """Two policies: the second one is the first with some rules changed, added, taken out or in other modes."""
    chosen = [(f"rule-{each}", each, random.choice(list(Mode))) for each in random.sample(sorted(SETTINGS), 6)]
    rules = [(name, SETTINGS[each](random), mode) for name, each, mode in chosen]
    changed: list[tuple[str, RuleSettings, Mode]] = []
    for (name, guardrail, mode), (_, settings, _) in zip(chosen, rules, strict=True):
        new_settings = SETTINGS[guardrail](random) if random.random() < 0.5 else settings
        changed.append((name, new_settings, random.choice([mode, *Mode])))
    changed = random.sample(changed, 5)
    others = sorted(SETTINGS.keys() - {guardrail for _, guardrail, _ in chosen})  # else one may only get another name
    changed += [(f"new-{each}", SETTINGS[each](random), Mode.ENFORCE) for each in random.sample(others, 3)]
    exception = PolicyException(
        rules[0][0], random.choice(["", "shop"]), random.choice(["", "a*"]), "why", None, None, HERE
    )
    old, new = policy_of(rules), policy_of(changed, random.choice([(), (exception,)]))
    return old, replace(new, rules=tuple(scoped(random, rule) for rule in new.rules))


def scoped(random: Random, rule: PolicyRule) -> PolicyRule:
    possible = "keys" in rule.settings.takes and random.random() < 0.3
    return replace(rule, scope=random.choice([Scope(keys=("a*",)), Scope(without=("b*",))])) if possible else rule


def traffic(random: Random) -> list[tuple[Identity, Command]]:
    """Commands of few forms, most of which have more commands than exemplars; all can be made again."""
    few = [Command(STANDARD, generated(random)) for _ in range(12)]
    every = [*few, *(varied(random, random.choice(few)) for _ in range(500))]
    sent = [(random.choice([FIRST, SECOND, OTHERS]), command) for command in every]
    return [(who, command) for who, command in sent if is_readable(command)]


def is_readable(command: Command) -> bool:
    return (
        remade(exemplar(command, SHOWN, NOW).words, command.name, shape_of(command), form_of(command), STANDARD)
        is not None
    )


def untold_commands(found: PolicyDiff) -> Counter[tuple[str, str]]:
    by_rule: Counter[tuple[str, str]] = Counter()
    for (app, rule, _), count in found.untold.items():
        by_rule[app, rule] += count
    return by_rule


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_the_difference_is_what_judging_every_command_finds(seed: int) -> None:
    random = Random(seed)
    old, new = random_policies(random)
    commands = traffic(random)
    redaction = Redaction(random.choice([Redact.NONE, Redact.NONE, Redact.HASH, Redact.SHAPE]))
    found = diff(recorded(commands, redaction), old, new, NOW)
    assert all(its.judged == its.commands for its in found.coverage.values())
    expected = brute_force(commands, old, new)
    untold = untold_commands(found)
    told = {(each.app, each.kind, each.rule, each.before): each for each in found.changes}
    for change in told.keys() | expected.keys():
        app, _, rule, _ = change
        its, missing = told.get(change), untold[app, rule]
        least = its.commands.least if its else 0
        most = its.commands.most if its else found.unseen[app, rule]
        assert least <= expected[change] <= most + missing, (change, its)
        if its is not None and its.exact and not missing:
            assert its.commands.least == expected[change]


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_rules_of_the_form_are_exact(seed: int) -> None:
    random = Random(seed)
    old, new = random_policies(random)
    commands = traffic(random)
    found = diff(recorded(commands), old, new, NOW)
    sides = [PolicyForApps(each, NOW) for each in (old, new)]

    def by_form(app: str, rule: str) -> bool:
        parts = [part for side in sides for (name, _), part in side.rules_for(app).items() if name == rule]
        return all(part.judged_by(command.spec) in (None, JudgedBy.FORM) for part in parts for _, command in commands)

    expected = {
        change: count for change, count in brute_force(commands, old, new).items() if by_form(change[0], change[2])
    }
    told = {
        (each.app, each.kind, each.rule, each.before): (each.commands.least, each.commands.most)
        for each in found.changes
        if by_form(each.app, each.rule)
    }
    assert told == {change: (count, count) for change, count in expected.items()}


def sent(*lines: str, who: Identity = FIRST) -> list[tuple[Identity, Command]]:
    return [(who, Command(STANDARD, line.encode().split())) for line in lines]


def told(found: PolicyDiff) -> list[tuple[str, str, str, str, str]]:
    return [(each.kind, each.rule, each.mode, each.before, str(each.commands)) for each in found.changes]


KEYS_REFUSED = "rules: {walks: {refuse: [KEYS], mode: %s}}"
NAMED = "rules: {names: {names: {max_length: 5}, mode: enforce}}"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("off", "enforce", ("newly refused", "walks", "enforce", "passed", "2")),
        ("off", "audit", ("newly refused", "walks", "audit", "passed", "2")),
        ("audit", "enforce", ("newly refused", "walks", "enforce", "refused, only counted", "2")),
        ("enforce", "audit", ("no longer refused", "walks", "audit", "refused", "2")),
        ("enforce", "off", ("no longer refused", "walks", "enforce", "refused", "2")),
        ("audit", "warn", None),
    ],
)
def test_modes(old: str, new: str, expected: tuple[str, ...] | None) -> None:
    found = diff(
        recorded(sent("KEYS a*", "KEYS b*", "GET k")), policy(KEYS_REFUSED % old), policy(KEYS_REFUSED % new), NOW
    )
    assert told(found) == ([] if expected is None else [expected])
    assert bool(found.hits(["newly refused"])) is (
        expected is not None and expected[0] == "newly refused" and new == "enforce"
    )


def test_an_audited_rule_hides_nothing_of_an_enforced_one() -> None:
    old = policy("rules: {reads: {read_only: true, mode: audit}}")
    new = policy("rules: {reads: {read_only: true, mode: audit}, flushes: {refuse: [FLUSHALL], mode: enforce}}")
    assert told(diff(recorded(sent("FLUSHALL")), old, new, NOW)) == [
        ("newly refused", "flushes", "enforce", "passed", "1")
    ]


def test_a_rule_that_only_gets_another_name_changes_nothing() -> None:
    old, new = (policy(f"rules: {{{name}: {{refuse: [KEYS], mode: enforce}}}}") for name in ("a", "b"))
    assert told(diff(recorded(sent("KEYS a*")), old, new, NOW)) == []


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((1, 22, 333, 4444, 55555), "at least 2, at most 4"),
        ((1, 22, 4444, 55555, 666666), "at least 3, at most 5"),
        ((1, 22, 4444), "1"),
    ],
)
def test_names_are_told_by_exemplars(numbers: tuple[int, ...], expected: str) -> None:
    evidence = recorded(sent(*(f"GET k:{number}" for number in numbers)))
    found = diff(evidence, policy("rules: {}"), policy(NAMED), NOW)
    assert told(found) == [("newly refused", "names", "enforce", "passed", expected)]


@pytest.mark.parametrize(
    "told_by_names",
    [
        "exceptions: [{rule: deletes, keys: 'k:9*', because: jobs, until: 2999-01-01}]",
        "rollout: {deletes: enforce 99.99%}",
        "",
    ],
)
def test_exceptions_and_shares_of_keys_are_told_by_exemplars(told_by_names: str) -> None:
    scope = "" if told_by_names else ", except: 'k:9*'"
    new = policy(f"rules: {{deletes: {{refuse: [DEL]{scope}}}}}\ndefaults: {{mode: enforce}}\n{told_by_names}")
    found = diff(recorded(sent(*(f"DEL k:{number}" for number in range(9)))), policy("rules: {}"), new, NOW)
    ((_, _, _, _, commands),) = told(found)
    assert commands == "at least 3, at most 9"


@pytest.mark.parametrize("redact", [Redact.HASH, Redact.SHAPE])
def test_hidden_names_are_never_guessed(redact: Redact) -> None:
    evidence = recorded(sent("GET session:77", "GET k:1", "GET k", "GET longer"), Redaction(redact, b"secret"))
    found = diff(evidence, policy("rules: {}"), policy(NAMED), NOW)
    assert told(found) == [("newly refused", "names", "enforce", "passed", "1")]  # a shape without ids is the key
    (untold,) = found.untold.items()
    assert untold == (("shop", "names", module.REASONS[JudgedBy.NAMES]), 2)


def test_state_cannot_be_told() -> None:
    new = policy("rules: {rates: {limits: {per: app, rate: 1/s}, mode: enforce}, caps: {collections: {members: 5}}}")
    found = diff(recorded(sent("GET k", "SADD s m")), policy("rules: {}"), new, NOW)
    assert told(found) == []
    assert found.untold == {
        ("shop", "rates", module.REASONS[JudgedBy.STATE]): 2,
        ("shop", "caps", module.REASONS[JudgedBy.STATE]): 1,
    }


def test_what_is_not_told_apart_is_not_recorded() -> None:
    evidence = recorded(sent("KEYS a*", "GET k"))
    (rows,) = evidence.hours.values()
    rows.forms[FormKey(Identity("shop"), "GET")] = FormRow(7, 7)
    rows.forms[FormKey(Identity("shop"), "")] = FormRow(2, 2)
    rows.forms[FormKey(FIRST, "LLEN", "k", "keys=1")] = FormRow(4, 1)
    rows.commands[CommandKey(FIRST, "GET")] += 20
    its = diff(evidence, policy("rules: {}"), policy(KEYS_REFUSED % "enforce"), NOW).coverage["shop"]
    assert (its.commands, its.judged, its.folded, its.unreadable, its.unrecorded) == (22, 2, 9, 4, 16)


def test_a_sample_says_how_much_was_seen() -> None:
    evidence = recorded(sent("KEYS a*"))
    for row in next(iter(evidence.hours.values())).forms.values():
        row.count = 100
    (change,) = diff(evidence, policy("rules: {}"), policy(KEYS_REFUSED % "enforce"), NOW).changes
    assert (str(change.commands), change.counted, change.seen) == ("100", 100, 1)


def test_an_exemplar_of_another_form_proves_nothing() -> None:
    evidence = recorded(sent("MGET a b c"))
    (rows,) = evidence.hours.values()
    (row,) = rows.forms.values()
    rows.forms = {FormKey(FIRST, "MGET", "a", "keys=9"): row}
    found = diff(evidence, policy("rules: {}"), policy("rules: {few: {fan_out: {max: 2}, mode: enforce}}"), NOW)
    assert (told(found), found.coverage["shop"].unreadable) == ([], 1)


def test_an_exception_counts_as_of_now() -> None:
    old, new = KEYS_REFUSED % "enforce", "exceptions: [{rule: walks, app: shop, because: jobs, until: %s}]"
    apps = "apps: {shop: {match: {user: shop}}}"
    before, over = (policy(f"{old}\n{apps}\n{new % day}") for day in ("2999-01-01", "2020-01-01"))
    evidence = recorded(sent("KEYS a*"), at=0.0)
    assert told(diff(evidence, before, before, NOW)) == []
    assert told(diff(evidence, before, over, NOW)) == [("newly refused", "walks", "enforce", "passed", "1")]


def test_scripts_follow_a_rule_that_changes() -> None:
    scripts = "rules: {scripts: {scripts: {commands: follow_rules}, mode: enforce}"
    old, new = policy(scripts + "}"), policy(scripts + ", walks: {refuse: [KEYS], mode: enforce}}")
    evidence = recorded(sent("EVAL text 0"))
    assert diff(evidence, old, new, NOW).untold == {("shop", "scripts", module.REASONS[JudgedBy.STATE]): 1}
    assert diff(evidence, old, old, NOW).untold == {}
