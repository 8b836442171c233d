"""`explain` and a policy's own tests agree with judging."""

import pickle
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.commands.table import STANDARD
from proxy.policy.expectations import run_tests
from proxy.policy.explain import explain, shown_command
from tests.policy.given import compile_policy, policy, policy_files
from tests.rules.given import context

POLICY = """
    keyrail: 1
    apps: {shop: {match: {user: shop}}, data: {match: {user: data}}}
    rules:
      lifetimes: {lifetime: {default: 5m, jitter: 10%}}
      no-flush: {refuse: [FLUSHALL], because: it wipes, instead: do not, locked: true}
      names: {names: {segments: 2..}}
      no-keys: {refuse: [KEYS]}
      no-scan: {refuse: [SCAN]}
    rollout: {names: enforce, lifetimes: {default: enforce, data: off}, no-keys: warn, no-scan: off}
    exceptions: [{rule: names, keys: "tmp*", because: X-1}]
    tests:
"""
TESTS = [
    ('{send: "SET user:1 x", becomes: "SET user:1 x EX 300", jitter: 0}', "PASS"),
    ('{send: "SET user:1 x", becomes: "SET user:1 x EX 300"}', "FAIL SET user:1 x EX 270"),
    ('{send: "SET user:1 x", unchanged: true, app: data}', "PASS"),
    ('{send: "set user:1 x EX 9", unchanged: true}', "PASS"),
    ('{send: "SET bad x", refused_by: names}', "PASS"),
    ('{send: "SET tmp x EX 9", unchanged: true}', "PASS"),
    ('{send: "KEYS *", refused_by: no-keys}', "PASS"),
    ('{send: "KEYS *", unchanged: true}', "FAIL refused by no-keys"),
    ('{send: "SCAN 0", unchanged: true}', "PASS"),
    ('{send: "GET \\"a:b c\\"", refused_by: names}', "FAIL it unchanged"),
    ('{send: "KEYS a b", refused_by: no-keys}', "PASS"),
    (
        '{send: "GET user:1 b", refused_by: names}',
        "FAIL it unchanged, as Redis refuses it: GET does not take 2 arguments",
    ),
]


@pytest.mark.parametrize(("test", "outcome"), TESTS)
def test_a_policys_tests_try_what_its_rules_say(test: str, outcome: str, tmp_path: Path) -> None:
    report = run_tests(policy_files(tmp_path, {"p.yaml": f"{POLICY}      - {test}\n"}), 0.0)
    verdict, _, got = outcome.partition(" ")
    assert [each.got for each in report.outcomes] == [got]
    assert str(report.outcomes[0]).startswith(f"{verdict} {tmp_path}/p.yaml:13: ")
    assert report.failed == (verdict == "FAIL")


def test_what_no_test_reaches_is_told(tmp_path: Path) -> None:
    report = run_tests(policy_files(tmp_path, {"p.yaml": f"{POLICY}      - {TESTS[4][0]}\n"}), 0.0)
    assert report.unreached == ("lifetimes", "no-flush", "no-keys")  # no-scan is off


def explained(line: str, app: str = "") -> str:
    loaded = policy(POLICY.replace("    keyrail: 1\n", "").replace("    tests:\n", ""))
    found = next((each for each in loaded.apps if each.name == app), None)
    text = str(explain(compile_policy(loaded, STANDARD, app=found), line.encode().split(), context()))
    return text.replace(loaded.source, "p.yaml")


def test_each_rule_says_what_it_does_and_why() -> None:
    text = explained("SET a:b x", "shop")
    assert text.splitlines()[0] == "SET a:b x, of app shop"
    below = "rollout, p.yaml:10; else audit: defaults, p.yaml"
    assert [" ".join(line.split()) for line in text.splitlines()[2:-2]] == [
        "no-flush p.yaml:6 not about SET",
        "no-keys p.yaml:8 not about SET",
        f"no-scan p.yaml:9 off [off: {below}]",
        "names p.yaml:7 passes it",
        f"lifetimes p.yaml:5 rewrites it to SET a:b x EX 300 [enforce: {below}]",
    ]
    assert text.endswith(r"to Redis: *5\r\n$3\r\nSET\r\n$3\r\na:b\r\n$1\r\nx\r\n$2\r\nEX\r\n$3\r\n300\r\n")


@pytest.mark.parametrize(
    ("line", "app", "said"),
    [
        ("SET bad x", "", "refuses it: -DENIED keyrail/names: "),
        ("SET bad x", "", "not asked: an earlier rule has decided"),
        (
            "SET tmp x",
            "",
            "off  [off: exception: X-1, p.yaml:11; else enforce: rollout, p.yaml:10; else audit: defaults, p.yaml]",
        ),
        (
            "SET a:b x",
            "data",
            "off  [off: rollout of data, p.yaml:10; else enforce: rollout, p.yaml:10; else audit: ",
        ),
        ("KEYS *", "", "would refuse it: -DENIED keyrail/no-keys: "),
        ("KEYS *", "", "[warn: rollout, p.yaml:10; else audit: defaults, p.yaml]"),
        ("KEYS *", "", r"to Redis: *2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n"),
        ("FLUSHALL", "", "[enforce: locked, p.yaml:6]"),
        ("FLUSHALL", "", "to the client: -DENIED keyrail/no-flush: FLUSHALL is refused because it wipes; do not"),
        ("SETNX a:b x", "", "SET a:b x NX EX 300 and its reply back"),
        ("SET a:b x FROB", "", "leaves it: SET has an unknown option"),
    ],
)
def test_outcomes_are_told_in_words(line: str, app: str, said: str) -> None:
    assert said in explained(line, app)


def test_the_kill_switch_stands_before_what_it_takes_away() -> None:
    loaded = policy("rules: {short: {names: {max_length: 1}, mode: enforce 10%}}")
    text = str(explain(compile_policy(loaded, STANDARD, paused=True), [b"GET", b"ab"], context()))
    assert "[audit: kill switch, " in text
    assert ":2; else enforce 10%: rule, " in text


ASKING = """
    rules:
      names: {names: {segments: 2..}, mode: enforce}
      small: {whole_collections: {max: 9}, mode: enforce}
      walk: {keys_by_scan: {}, mode: audit}
    tests: [{send: "%s", %s}]
"""


@pytest.mark.parametrize(
    ("send", "outcome", "got"),
    [
        ("HGETALL a:b", "asked_by: small", ""),
        ("HGETALL a:b", "unchanged: true", "a question to Redis by small"),
        ("HGETALL bad", "asked_by: small", "refused by names"),
        ("KEYS *", "asked_by: walk", ""),
        ("KEYS *", "asked_by: small", "a question to Redis by walk"),
    ],
)
def test_a_rule_that_asks_redis_can_be_tested_without_one(send: str, outcome: str, got: str) -> None:
    report = run_tests(policy(ASKING % (send, outcome)), 0.0)
    assert [each.got for each in report.outcomes] == [got]
    assert ("small" in report.unreached) == (send != "HGETALL a:b")


BEHIND = """
    defaults: {mode: enforce}
    rules:
      ttl: {lifetime: {default: 5m}}
      large: {replies: {elements: 9}}
      scripts: {scripts: {commands: follow_rules, dynamic_calls: refuse}}
      lazy: {replace: {DEL: UNLINK}}
    tests: [{send: %s, %s}]
"""


@pytest.mark.parametrize(
    ("send", "outcome", "got"),
    [
        ("INCR a", "followed_by: ttl", ""),
        ("INCR a", "unchanged: true", "it followed by hidden commands of ttl"),
        ("INCR a", "unchanged: true, followed_by: [ttl]", ""),
        ("INCR a", "followed_by: [ttl, large]", "it followed by hidden commands of ttl"),
        ("INCR a", "becomes: INCR b, followed_by: ttl", "it unchanged"),
        ("INCR a", "refused_by: scripts", "it followed by hidden commands of ttl"),
        ("GET a", "followed_by: ttl", "it followed by hidden commands of no rule"),
        ("GET a", "refused_by: ttl", "it unchanged"),
        ("DEL a", "becomes: UNLINK a", ""),
        ("DEL a", "becomes: UNLINK a, followed_by: ttl", "it followed by hidden commands of no rule"),
        ("MGET a b", "unchanged: true", ""),  # `large` looks at the reply, and sends nothing
        (f"EVALSHA {'0' * 40} 0", "answered_by: scripts", ""),
        (f"EVALSHA {'0' * 40} 0", "unchanged: true", "answered by scripts"),
    ],
)
def test_what_goes_behind_a_command_or_in_its_place_can_be_tested(send: str, outcome: str, got: str) -> None:
    assert [each.got for each in run_tests(policy(BEHIND % (send, outcome)), 0.0).outcomes] == [got]


def test_a_rule_that_asks_redis_says_so() -> None:
    compiled = compile_policy(policy(ASKING % ("KEYS *", "asked_by: walk")), STANDARD)
    text = str(explain(compiled, [b"HGETALL", b"a:b"], context()))
    assert "asks Redis before it decides" in text
    assert text.endswith("the rule decides by Redis's reply")
    assert "would ask Redis before it decides" in str(explain(compiled, [b"KEYS", b"*"], context()))


def test_a_command_is_shown_as_one_types_it() -> None:
    assert shown_command([b"SET", b"a b", b"", b'"\n', b"it's"]) == r'''SET "a b" "" "\"\n" "it's"'''
    assert len(shown_command([b"x" * 500])) == 201


def test_check_and_explain_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, broken = (tmp_path / name for name in ("good.yaml", "bad.yaml", "broken.yaml"))
    good.write_text(
        "keyrail: 1\nrules: {a: {refuse: [KEYS]}}\ntests: [{send: KEYS *, refused_by: a}]\n"
        "exceptions: [{rule: a, keys: 'b:*', because: x, until: 2020-01-01}]\n"
    )
    bad.write_text("keyrail: 1\nrules: {a: {refuse: [KEYS]}}\ntests: [{send: KEYS *, unchanged: true}]\n")
    broken.write_text("keyrail: 1\nrules: {a: {refuse: KEYS}}\n")
    assert main(["check", str(good)]) == 0
    assert main(["check", str(good), str(bad)]) == 1
    assert main(["check", str(broken), str(good)]) == 2
    said = capsys.readouterr().out
    assert f"WARN {good}:4: the exception from a is over since 2020-01-01: take it out\n" in said
    assert f"PASS {good}:3: KEYS *: refused by a\n{good}: valid; 1 rule; tests: 1 passed, 0 failed\n" in said
    assert f"FAIL {bad}:3: KEYS *: unchanged, got refused by a\n" in said
    assert f"{broken}:2: rules.a.refuse: found 'KEYS', expected a list" in said
    assert main(["explain", "--policy", str(good), "--", "KEYS", "*"]) == 0
    assert "would refuse it: -DENIED keyrail/a: " in capsys.readouterr().out
    assert main(["explain", "--policy", str(good), "--app", "x", "--", "KEYS", "*"]) == 2
    assert main(["explain", "--policy", str(broken), "--", "KEYS", "*"]) == 2
    assert capsys.readouterr().err.splitlines()[0].startswith("keyrail: --app x: expected an app of ")
    assert main(["explain", "--policy", "tour", "--", "DEL", "user:1:name"]) == 0
    assert "tour.yaml:" in capsys.readouterr().out


def test_jitter_is_left_out() -> None:
    compiled = compile_policy(policy("rules: {a: {lifetime: {default: 5m, jitter: 50%}}}"), STANDARD)
    assert "to SET k v EX 300  [" in str(explain(compiled, [b"SET", b"k", b"v"], context(0.9)))


def test_whose_the_keys_are_is_told_first() -> None:
    loaded = policy("""
        schema: {cart: {key: "cart:{user:int}"}}
        rules: {known: {names: {in_schema: true}}}
        """)
    text = str(explain(compile_policy(loaded, STANDARD), b"MGET cart:1 x".split(), context()))
    owners = [" ".join(line.replace(loaded.source, "p.yaml").split()) for line in text.splitlines()[2:4]]
    assert owners == [
        "argument 1 p.yaml:3 is a key of cart, cart:{user:int}",
        "argument 2 is a key of no entry of the schema",
    ]
    many = str(explain(compile_policy(loaded, STANDARD), b"MGET 1 2 3 4 5 6 7".split(), context()))
    assert many.splitlines()[7].strip() == "and 2 more keys"


def test_a_policy_that_was_handed_on_is_explained_as_before() -> None:
    for schema in ("", "schema: {cart: {key: 'cart:{user:int}'}}\n"):
        loaded = policy(schema + "rules: {no-keys: {refuse: [KEYS]}}")
        handed = pickle.loads(pickle.dumps(loaded))
        told, again = (
            str(explain(compile_policy(each, STANDARD), [b"GET", b"cart:1"], context())) for each in (loaded, handed)
        )
        assert again == told
        assert ("is a key of cart" in again) is bool(schema)


@pytest.mark.parametrize(
    ("more", "said", "outcome"),
    [
        ("", "leaves it: the command may block, and nothing runs as one with it", "to Redis: *6"),
        (", without_proof: refuse", "refuses it: -DENIED keyrail/ttl: ", "to the client: -DENIED keyrail/ttl: "),
    ],
)
def test_nothing_goes_with_what_may_block(more: str, said: str, outcome: str) -> None:
    rules = f"rules: {{ttl: {{lifetime: {{default: 5m, types: all{more}}}, mode: enforce}}}}"
    told = str(explain(compile_policy(policy(rules), STANDARD), b"BLMOVE a b LEFT LEFT 0".split(), context()))
    assert said in told
    assert f"\n{outcome}" in told
    expected = "refused_by: ttl" if more else "unchanged: true"
    tested = policy(f"{rules}\ntests: [{{send: BLMOVE a b LEFT LEFT 0, {expected}}}]")
    assert [outcome.got for outcome in run_tests(tested, 0.0).outcomes] == [""]


NAMED = "defaults: {mode: enforce}\nrules:\n  walks: {refuse: [KEYS]}\n  lazy: {replace: {DEL: UNLINK}}\n"


@pytest.mark.parametrize(
    ("send", "outcome", "told"),
    [
        ("KEYRAIL NODE n1 KEYS *", "refused_by: walks", "to the client: -DENIED keyrail/walks"),
        ("KEYRAIL NODE n1 DEL a", "becomes: UNLINK a", "rewrites it to UNLINK a"),
        ("KEYRAIL NODE n1 GET a", "unchanged: true", r"to Redis: *2\r\n$3\r\nGET"),
    ],
)
def test_of_keyrail_node_the_command_that_it_carries_decides(send: str, outcome: str, told: str) -> None:
    tests = f"tests: [{{send: '{send}', {outcome}}}]\n"
    assert [each.got for each in run_tests(policy(NAMED + tests), 0.0).outcomes] == [""]
    assert told in str(explain(compile_policy(policy(NAMED), STANDARD), send.encode().split(), context()))


def test_of_a_refused_keyrail_node_nothing_else_decides() -> None:
    closed = policy("defaults: {mode: enforce}\nrules: {closed: {refuse: [KEYRAIL NODE]}}\n")
    text = str(explain(compile_policy(closed, STANDARD), b"KEYRAIL NODE n1 GET a".split(), context()))
    assert "to the client: -DENIED keyrail/closed" in text


@pytest.mark.parametrize(
    ("when", "mode", "line", "said"),
    [
        ("always", "enforce", "GET product:1", "may answer it from memory  [enforce:"),
        ("hot", "enforce", "GET product:1", "may answer it from memory while its key is hot  [enforce:"),
        ("always", "audit", "GET product:1", "would answer it from memory  [audit:"),
        ("always", "enforce", "GET order:1", "passes it"),
        ("always", "enforce", "MGET product:1 product:2", "passes it"),
        ("always", "enforce", "TTL product:1", "not about TTL"),
        ("always", "off", "GET product:1", "off"),
    ],
)
def test_a_read_that_may_be_answered_from_memory(when: str, mode: str, line: str, said: str) -> None:
    rules = f"rules: {{cached: {{local_cache: {{keys: ['product:*'], when: {when}}}, mode: {mode}}}}}"
    told = str(explain(compile_policy(policy(rules), STANDARD), [word.encode() for word in line.split()], context()))
    assert f"  {said}" in told, told
