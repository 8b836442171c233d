"""The keys and arguments of a script's calls follow the same rules as those of a client's commands."""

from __future__ import annotations

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.compile import CompiledPolicy
from proxy.policy.load import load_policy
from proxy.policy_yaml.shipped import packaged
from proxy.rules.memory import Memory
from proxy.rules.verdict import Refuse, Surround
from tests.policy.given import compile_policy, compiled, policy
from tests.rules.given import command, context

RULES = """
    defaults: {mode: enforce}
    schema:
      cart: {key: "cart:{id}", type: hash, ttl: 1h, size: {members: 2}}
      page: {key: "page:{id}", type: string, ttl: {default: 1m, max: 1h}, size: 10B}
      any: {key: "{kind}:{id...}"}
    rules:
      prefixes: {names: {prefixes: {default: ["own:", "cart:", "page:", "{s}:"]}}}
      types: {schema: type, applies_to: all}
      sizes: {schema: size}
      fan: {fan_out: {max: 3}}
      ranges: {ranges: {max: 10}}
      slots: {one_slot: true}
      ttls: {schema: ttl, persist: refuse, without_proof: %s}
      scripts: {scripts: {commands: follow_rules, dynamic_calls: allow%s}}
"""


def bound(without_proof: str = "pass", undeclared: str = "allow") -> CompiledPolicy:
    return compiled(RULES % (without_proof, f", undeclared_keys: {undeclared}"))


def said(rules: CompiledPolicy, script: str, *inputs: str) -> str:
    """The error that a client reads that runs the script with these keys and arguments, a ``-`` between them."""
    keys, _, arguments = " ".join(inputs).partition(" - ")
    argv = [b"EVAL", script.encode(), b"%d" % len(keys.split()), *keys.encode().split(), *arguments.encode().split()]
    verdict = rules.judge(command("EVAL", *argv[1:]), context()).verdict
    return verdict.error.decode().rstrip("\r\n") if isinstance(verdict, Refuse) else ""


@pytest.mark.parametrize(
    ("script", "rule", "inputs"),
    [
        ("return redis.call('GET', 'report:1')", "prefixes", ()),
        ("local k = 'report:1' return redis.call('GET', k)", "prefixes", ()),
        ("return redis.call('GET', ARGV[1])", "prefixes", ("own:1", "-", "report:1")),
        ("return redis.call('MGET', unpack(ARGV))", "prefixes", ("own:1", "-", "report:1")),
        ("if x then redis.call('SET', 'report:1', v) end", "prefixes", ()),
        ("redis.call('LPUSH', 'cart:1', v)", "types", ()),
        ("redis.call('LPUSH', KEYS[1], v)", "types", ("cart:1",)),
        ("redis.call('GET', KEYS[1])", "types", ("cart:1",)),
        ("redis.call('SET', 'page:1', '12345678901')", "sizes", ()),
        ("redis.call('SET', KEYS[1], ARGV[1], 'EX', 9)", "sizes", ("page:1", "-", "12345678901")),
        ("redis.call('HSET', KEYS[1], a, b, c, d, e, f)", "sizes", ("cart:1",)),
        ("redis.call('DEL', '{s}:1', '{s}:2', '{s}:3', '{s}:4')", "fan", ()),
        ("redis.call('LRANGE', KEYS[1], 0, -1)", "ranges", ("own:1",)),
        ("redis.call('PERSIST', KEYS[1])", "ttls", ("page:1",)),
    ],
)
def test_what_a_client_may_not_send_its_scripts_may_not_call(script: str, rule: str, inputs: tuple[str, ...]) -> None:
    error = said(bound(), script, *inputs)
    assert error.startswith("-DENIED keyrail/scripts: the script calls ")
    assert f", which {rule} refuses: " in error


@pytest.mark.parametrize(
    ("script", "inputs"),
    [
        ("return redis.call('GET', 'own:1')", ()),
        ("return redis.call('GET', key)", ()),
        ("redis.call('HSET', KEYS[1], a, b, c, d)", ("cart:1",)),
        ("redis.call('SET', 'page:1', v, 'EX', 10)", ()),
        ("redis.call('SET', 'page:1', v)", ()),
        ("redis.call('SET', 'page:1', v, 'EX', 9999999)", ()),
        ("redis.call('LRANGE', KEYS[1], 0, n)", ("own:1",)),
        ("redis.call('GET', '{s}:1') redis.call('GET', '{s}:2')", ("{s}:3",)),
    ],
)
def test_what_a_client_may_send_they_may(script: str, inputs: tuple[str, ...]) -> None:
    assert said(bound(), script, *inputs) == ""


def test_all_keys_of_a_script_lie_in_one_slot() -> None:
    apart = "-DENIED keyrail/scripts: the script names keys of several hash slots, which slots refuses; "
    assert said(bound(), "redis.call('GET', 'own:1') redis.call('GET', 'own:2')").startswith(apart)
    assert said(bound(), "redis.call('GET', KEYS[1]) redis.call('GET', 'own:2')", "own:1").startswith(apart)
    assert said(bound(), "redis.call('GET', KEYS[1])", "own:1", "own:2").startswith("-DENIED keyrail/slots: ")


def test_a_stated_ttl_cannot_be_changed_in_a_script() -> None:
    too_long = "redis.call('SET', 'page:1', v, 'EX', 9999999)"
    assert said(bound("pass"), too_long) == ""
    assert ", which ttls refuses: the TTL of 'page:1' (EX, argument 4 of SET) is 115d17h46m39s, " in said(
        bound("refuse"), too_long
    )
    assert said(bound("refuse"), "redis.call('SET', 'page:1', v, 'EX', 60)") == ""


def test_keys_that_a_script_creates_get_their_ttl_whether_declared_or_not() -> None:
    script = b"redis.call('SET', 'page:1', 'x') redis.call('GET', 'page:2') redis.call('INCR', KEYS[1])"
    slots = compiled(RULES.replace("slots: {one_slot: true}", "") % ("pass", ""))
    decision = slots.judge(command("EVAL", script, b"1", b"page:3"), context())
    (hidden,) = decision.hidden
    assert isinstance(hidden.surround, Surround)
    assert {tuple(each) for each in hidden.surround.before} == {(b"TTL", b"page:1"), (b"TTL", b"page:3")}


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("return redis.call('GET', ARGV[1])", "GET"),
        ("return redis.call('GET', KEYS[1] .. ':x')", "GET"),
        ("local k = KEYS k[1] = 'own:2' return redis.call('GET', KEYS[1])", "GET"),
        ("return redis.call('OBJECT', 'ENCODING', k)", "OBJECT ENCODING"),
        ("redis.call('MSET', 'own:1', 1, k, 2)", "MSET"),
    ],
)
def test_undeclared_keys_are_refused_where_the_policy_says_so(script: str, name: str) -> None:
    error = said(bound(undeclared="refuse"), script, "own:1", "-", "own:2")
    assert error == (
        f"-DENIED keyrail/scripts: the script calls {name} with a key that is not declared; "
        "pass the key to the script, and name it there as KEYS[1]"
    )
    assert said(bound(undeclared="refuse"), "return redis.call('GET', KEYS[1])", "own:1") == ""


@pytest.mark.parametrize(
    ("key", "refused"), [("k[1]", False), ("'own:1'", False), ("a[1]", True), ("'x' .. k[1]", True)]
)
def test_a_library_declares_the_keys_of_its_functions(key: str, refused: bool) -> None:
    library = f"#!lua name=l\nredis.register_function('f', function(k, a) return redis.call('GET', {key}) end)"
    verdict = bound(undeclared="refuse").judge(command("FUNCTION LOAD", library.encode()), context()).verdict
    assert isinstance(verdict, Refuse) is refused


def test_undeclared_keys_have_a_mode_of_their_own_in_a_rule_of_their_own() -> None:
    rules = compiled("""
        defaults: {mode: enforce}
        rules:
          scripts: {scripts: {commands: follow_rules, dynamic_calls: allow}}
          declared: {scripts: {undeclared_keys: refuse}, mode: audit}
    """)
    decision = rules.judge(command("EVAL", b"return redis.call('GET', ARGV[1])", b"0", b"a"), context())
    assert [(hit.rule, hit.mode.value, hit.what) for hit in decision.hits] == [("declared", "audit", "refused")]


def test_a_rule_about_keys_can_count_scripts_only() -> None:
    rules = compiled("""
        defaults: {mode: enforce}
        rules:
          names: {names: {separator: ":", segments: 2}, in_scripts: audit}
          scripts: {scripts: {commands: follow_rules}}
    """)
    decision = rules.judge(command("EVAL", b"return redis.call('GET', 'a')", b"0"), context())
    assert [(hit.rule, hit.mode.value, hit.what) for hit in decision.hits] == [("scripts", "audit", "refused")]
    assert said(rules, "return redis.call('GET', KEYS[1])", "a").startswith("-DENIED keyrail/names: ")


def test_an_audited_rule_about_keys_refuses_nothing_to_scripts() -> None:
    rules = compiled("""
        defaults: {mode: enforce}
        rules:
          names: {names: {separator: ":", segments: 2}, mode: audit}
          scripts: {scripts: {commands: follow_rules}}
    """)
    assert said(rules, "return redis.call('GET', 'a')") == ""


def test_a_limit_on_keys_counts_a_script_as_one_command_whatever_it_calls() -> None:
    text = """
        defaults: {mode: enforce}
        rules:
          few: {limits: {keys: "product:*", rate: 2/h}}
          scripts: {scripts: {commands: follow_rules}}
          names: {names: {separator: ":", segments: 2}}
    """
    rules = compile_policy(policy(text), STANDARD, memory=Memory())
    script = "for i = 1, 500 do redis.call('INCR', 'product:1') end redis.call('INCR', 'product:2')"
    refused = [bool(said(rules, script)) for _ in range(3)]
    assert refused == [False, False, True]
    assert said(rules, script).startswith("-DENIED keyrail/few: more than 2 commands/h about product:* in all; ")


@pytest.mark.parametrize("name", ["strict", "tour", "observe"])
def test_another_teams_key_is_none_of_a_scripts(name: str) -> None:
    loaded = load_policy(packaged(name))
    rules = compile_policy(loaded, STANDARD, rehearsal=True)
    key = "report:1" if name == "strict" else "report"
    literal = f"return redis.call('GET', '{key}')"
    assert said(rules, literal).startswith("-DENIED keyrail/scripts: the script calls GET, which ")
    assert bool(said(rules, "return redis.call('GET', ARGV[1] .. ':x')")) is (name != "tour")
