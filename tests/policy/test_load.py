"""A policy file is read strictly: everything in it is known, and all its problems are reported at once, with line,
path, found text and expected text."""

import pytest

from proxy.policy.model import Mode, OnError
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.guardrails import GUARDRAILS
from proxy.rules.lifetime.settings import LifetimeSettings
from proxy.rules.names.rule import NamesSettings
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.replace.rule import ReplaceSettings
from proxy.schema.bounds import Bounds
from tests.policy.given import policy

NAMES = "rules: {n: {names: {%s}}}"
LIFETIME = "rules: {l: {lifetime: {%s}}}"


SECTIONS = (
    "keyrail", "include", "defaults", "cross_slot", "zones", "tenants", "traffic", "alerts", "apps", "exceptions",
    "rules", "schema", "rollout", "tests",
)  # fmt: skip


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        policy(text)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(caught.value.problems)
    return [line.partition("policy.yaml:")[2] for line in lines]


def test_every_guardrail_is_read() -> None:
    loaded = policy("""
        defaults: {mode: enforce, on_rule_error: pass}
        traffic: {count_keys: off}
        cross_slot: split
        rules:
          a: {refuse: [flushall, config|set, "Config  Rewrite", no.drop], because: "it  wipes", instead: x, mode: warn}
          b: {replace: {del: unlink}}
          c: {names: {separator: /, segments: 2.., characters: any, min_length: 3, max_length: 9}, applies_to: writes}
          d: {lifetime: {default: 1h30m, jitter: 12.5%}, mode: off}
    """)
    assert loaded.on_rule_error is OnError.LET_THROUGH
    assert not loaded.count_keys
    assert loaded.splits_writes
    assert [(rule.name, str(rule.mode or loaded.default), rule.where.line) for rule in loaded.rules] == [
        ("a", "warn", 7),
        ("b", "enforce", 8),
        ("c", "enforce", 9),
        ("d", "off", 10),
    ]
    assert [rule.settings for rule in loaded.rules] == [
        RefuseSettings(("FLUSHALL", "CONFIG SET", "CONFIG REWRITE", "NO.DROP")),
        ReplaceSettings((("DEL", "UNLINK"),)),
        NamesSettings(
            min_length=3,
            max_length=9,
            separator="/",
            min_segments=2,
            empty_segments=False,
            reads=False,
        ),
        LifetimeSettings(Bounds(5400, jitter=0.125)),
    ]
    assert (loaded.rules[0].wording.because, loaded.rules[0].wording.instead) == ("it wipes", "x")


def test_a_short_policy_has_defaults() -> None:
    loaded = policy("rules: {a: {refuse: [KEYS]}}")
    assert (loaded.rules[0].mode, loaded.default.mode) == (None, Mode.AUDIT)
    assert loaded.on_rule_error is OnError.REFUSE
    assert loaded.count_keys
    assert not loaded.splits_writes
    assert policy("rules: {}").rules == ()


def test_a_mode_that_yaml_takes_for_a_boolean_is_a_mode() -> None:
    assert str(policy("rules: {a: {refuse: [KEYS], mode: off}}").rules[0].mode) == "off"


def test_all_problems_are_reported_at_once_in_the_order_of_the_file() -> None:
    assert problems("""\
        defaults: {mode: on}
        colour: blue
        rules:
          no-flush:
            refuse: [FLUSHAL, "CONFIG SETT", KEYS, keys]
            mode: enforced
          none: {because: x}
    """) == [
        "2: defaults.mode: found 'on', expected off, audit, warn, enforce or enforce 10%",
        f"3: colour: found an unknown key, expected one of {', '.join(SECTIONS)}",
        "6: rules.no-flush.refuse[0]: found 'FLUSHAL', expected a command; did you mean FLUSHALL?",
        "6: rules.no-flush.refuse[1]: found 'CONFIG SETT', expected a command; did you mean CONFIG SET?",
        "6: rules.no-flush.refuse[3]: found 'keys', expected each command once",
        "7: rules.no-flush.mode: found 'enforced', expected off, audit, warn, enforce or enforce 10%",
        f"8: rules.none: found no guardrail, expected exactly one of {', '.join(GUARDRAILS)}",
    ]


@pytest.mark.parametrize(
    ("text", "path", "meant"),
    [
        ("rule: {}", "rule", "rules"),
        ("rules: {a: {refuse: [KEYS], becuase: x}}", "rules.a.becuase", "because"),
        ("rules: {a: {name: {max_length: 9}}}", "rules.a.name", "names"),
        ("rules: {a: {block: [KEYS]}}", "rules.a.block", "refuse"),
        ("rules: {a: {ttl: {default: 5m}}}", "rules.a.ttl", "lifetime"),
        ("rules: {a: {refuse: [KEYS], reason: x}}", "rules.a.reason", "because"),
        ("rules: {a: {names: {max_len: 9}}}", "rules.a.names.max_len", "max_length"),
        ("rules: {a: {lifetime: {defualt: 5m}}}", "rules.a.lifetime.defualt", "default"),
        ("rules: {}\nschema: {a: {keys: x}}", "schema.a.keys", "key"),
        ("rules: {}\napps: {a: {matches: {user: a}}}", "apps.a.matches", "match"),
        ("rules: {}\ntests: [{sent: KEYS *, unchanged: true}]", "tests[0].sent", "send"),
        ("rules: {a: {refuse: [KEYS]}}\nexceptions: [{rules: a, keys: x, because: y}]", "exceptions[0].rules", "rule"),
    ],
)
def test_a_misspelt_key_is_one_problem_that_suggests_what_was_meant(text: str, path: str, meant: str) -> None:
    found = problems(text)
    assert len(found) == 1, found
    assert f" {path}: found an unknown key, expected one of " in found[0]
    assert found[0].endswith(f"; did you mean {meant}?")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("colour: blue", "rules: found nothing, expected a mapping of rules"),
        ("rules: [a]", "rules: found a list, expected a mapping"),
        ("rules:", "rules: found nothing, expected a mapping"),
        ("rules: {a: refuse}", "rules.a: found 'refuse', expected a mapping"),
        ("rules: {a: {refuse: KEYS}}", "rules.a.refuse: found 'KEYS', expected a list"),
        ("rules: {a: {refuse: []}}", "rules.a.refuse: found an empty list, expected a list such as"),
        ("rules: {a: {refuse: [{}]}}", "rules.a.refuse[0]: found an empty mapping, expected text"),
        ("rules: {a: {refuse: [CONFIG FOO BAR]}}", "rules.a.refuse[0]: found 'CONFIG FOO BAR', expected a command"),
        ("rules: {a: {refuse: [KEYS], allow: [keys]}}", "rules.a.allow[0]: found 'keys', expected a narrower form"),
        ("rules: {a: {refuse: [KEYS], allow: [GET a]}}", "rules.a.allow[0]: found 'GET a', expected a narrower form"),
        (
            "rules: {a: {refuse: [HELLO]}}",
            "rules.a.refuse[0]: found 'HELLO', expected a command that clients do not need",
        ),
        ("rules: {a: {refuse: [KEYS], replace: {DEL: UNLINK}}}", "rules.a: found refuse and replace, expected exactly"),
        (
            "rules: {a: {refuse: [KEYS], applies_to: reads}}",
            "rules.a.applies_to: found an unknown key, expected one of",
        ),
        ("rules: {A_b: {refuse: [KEYS]}}", "rules.A_b: found 'A_b', expected a name of lower-case letters"),
        ("rules: {-a: {refuse: [KEYS]}}", "rules.-a: found '-a', expected a name of lower-case letters"),
        ("rules: {a: {refuse: [KEYS], because: ''}}", "rules.a.because: found nothing, expected one line of text"),
        ("rules: {a: {refuse: [KEYS], instead: 'a\u200bb'}}", "rules.a.instead: found"),
        ("rules: {a: {refuse: [KEYS], because: " + "x" * 201 + "}}", "rules.a.because: found"),
        (
            "rules: {a: {replace: {DEL: GETDEL}}}",
            "rules.a.replace.DEL: found 'GETDEL', expected a command with the same",
        ),
        ("rules: {a: {replace: {DEL: [UNLINK]}}}", "rules.a.replace.DEL: found a list, expected a command"),
        ("rules: {a: {replace: {NIX: UNLINK}}}", "rules.a.replace.NIX: found 'NIX', expected a command"),
        ("rules: {a: {replace: {}}}", "rules.a.replace: found an empty mapping, expected pairs such as"),
        ("rules: {a: {replace: x}}", "rules.a.replace: found 'x', expected a mapping"),
        (
            "rules: {a: {names: {}, applies_to: all of it}}",
            "rules.a.applies_to: found 'all of it', expected one of all",
        ),
        ("rules: {a: {names: x}}", "rules.a.names: found 'x', expected a mapping"),
        (NAMES % "segment: 2", "rules.n.names.segment: found an unknown key, expected one of max_length, segments"),
        (NAMES % "segments: 6..2", "rules.n.names.segments: found '6..2', expected a span that starts at"),
        (NAMES % "segments: 0..2", "rules.n.names.segments: found '0..2', expected a span that starts at"),
        (NAMES % "segments: -1", "rules.n.names.segments: found '-1', expected a number or a span"),
        (NAMES % "segments: ..3", "rules.n.names.segments: found '..3', expected a number or a span"),
        (NAMES % "characters: ascii", "rules.n.names.characters: found 'ascii', expected one of any, "),
        (NAMES % "max_length: 0", "rules.n.names.max_length: found '0', expected a whole number from 1 to 65535"),
        (NAMES % "max_length: 1.5", "rules.n.names.max_length: found '1.5', expected a whole number from 1 to 65535"),
        (NAMES % "min_length: 5, max_length: 4", "rules.n.names.min_length: found 5, expected at most max_length"),
        (
            NAMES % "segments: 4, max_length: 6",
            "rules.n.names.segments: found 4, expected fewer segments, which fit into 6",
        ),
        (NAMES % "separator: '::'", "rules.n.names.separator: found '::', expected one visible ASCII character"),
        (NAMES % "separator: é", "rules.n.names.separator: found 'é', expected one visible ASCII character"),
        (
            NAMES % "separator: '@', segments: 2, characters: word-ascii",
            "rules.n.names.separator: found '@', expected one of the word-ascii characters; else no name passes",
        ),
        (LIFETIME % "", "rules.l.lifetime.default: found nothing, expected a time such as 5m"),
        (LIFETIME % "default: 300", "rules.l.lifetime.default: found '300', expected a time with its unit"),
        (LIFETIME % "default: 0s", "rules.l.lifetime.default: found '0s', expected a time with its unit"),
        (LIFETIME % "default: 36501d", "rules.l.lifetime.default: found '36501d', expected a time with its unit"),
        (LIFETIME % "default: 5m, jitter: 10", "rules.l.lifetime.jitter: found '10', expected a percentage"),
        (LIFETIME % "default: 5m, jitter: 100%", "rules.l.lifetime.jitter: found '100%', expected a percentage"),
        ("rules: {l: {lifetime: 5m}}", "rules.l.lifetime: found '5m', expected a mapping"),
        ("defaults: audit\nrules: {}", "defaults: found 'audit', expected a mapping"),
        ("traffic: on\nrules: {}", "traffic: found 'on', expected a mapping"),
        ("cross_slot: on\nrules: {}", "cross_slot: found 'on', expected one of split, refuse"),
        (
            "traffic: {count_keys: maybe}\nrules: {}",
            "traffic.count_keys: found 'maybe', expected one of true, false, on, off, yes, no",
        ),
        ("traffic: {evidence: all}\nrules: {}", "traffic.evidence: found 'all', expected one of sampled, exact"),
        (
            "traffic: {evidence: exact, count_keys: off}\nrules: {}",
            "traffic.evidence: found exact, expected sampled where count_keys is off",
        ),
        (
            "defaults: {on_rule_error: ignore}\nrules: {}",
            "defaults.on_rule_error: found 'ignore', expected one of refuse",
        ),
    ],
)
def test_what_is_not_in_the_language_is_an_error(text: str, problem: str) -> None:
    found = [line.partition(": ")[2] for line in problems(text)]
    assert any(line.startswith(problem) for line in found), found


def test_the_version_has_to_be_known(tmp_path: object) -> None:
    assert problems("keyrail: 2\nrules: {}")[0].startswith("2: keyrail: found a second time")


def test_the_longest_names_that_a_standard_allows_are_no_error() -> None:
    assert policy(NAMES % "segments: 4, max_length: 7").rules
    assert policy(NAMES % "segments: 4, max_length: 3, empty_segments: allow").rules
    assert policy(NAMES % "min_length: 4, max_length: 4").rules


def test_a_switch_is_read_in_any_words_of_yaml() -> None:
    for on, off in (("true", "false"), ("on", "off"), ("yes", "no")):
        written = policy(f"traffic: {{count_keys: {off}}}\nrules: {{a: {{refuse: [KEYS], locked: {on}}}}}")
        assert (written.count_keys, written.rules[0].locked) == (False, True)
