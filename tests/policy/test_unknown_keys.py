"""A command with unknown keys is not one without keys: every rule that needs the keys refuses it, in its own mode.
Redis itself refuses commands with a wrong number of arguments."""

import ast

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.policy.compile import CompiledPolicy
from proxy.rules.verdict import PASS, Refuse
from tests.commands.invocations import INVOCATIONS, split
from tests.policy.given import compiled
from tests.program_source import trees
from tests.rules.given import command, context, streamed

CASES = (
    ("names: {segments: 2..}", "ZUNIONSTORE a:b two a:c"),
    ("names: {prefixes: {default: [a]}}", "XREAD STREAMS a:b a:c 0"),
    ("names: {prefixes: {default: [a]}}", "STRALGO LCS KEYS a:b b:c"),
    ("one_slot: true", "EVAL text 3 a:b"),
    ("names: {segments: 2..}, keys: 'x*'", "ZUNIONSTORE a:b two a:c"),
    ("names: {segments: 2..}, except: '*'", "ZUNIONSTORE a:b two a:c"),
    ("fan_out: {max: 2}", "ZUNION 9 a:b a:c"),
    ("lifetime: {default: 5m}", "ZUNIONSTORE a:b 9 a:c"),
    ("whole_collections: {max: 5}", "ZINTER 7 a:b"),
)
LONG = "LONG"
TOO_LONG = (
    ("names: {segments: 2..}", "GET LONG"),
    ("names: {segments: 2..}, except: 'a*'", "GET LONG"),
    ("one_slot: true", "ZUNIONSTORE a:1 2 a:2 LONG"),
    ("lifetime: {default: 5m, keys: 'a:*'}", "INCR LONG"),
    ("lifetime: {default: 5m, keys: 'a:*'}", "ZUNIONSTORE LONG 1 a:1"),
    ("whole_collections: {max: 5}", "HGETALL LONG"),
    ("collections: {members: 5}", "SADD LONG 1"),
)


def rule(text: str, mode: str = "enforce") -> CompiledPolicy:
    return compiled(f"defaults: {{mode: {mode}}}\nrules: {{rule: {{{text}}}}}")


@pytest.mark.parametrize(("text", "line"), CASES)
def test_what_has_unknown_keys_is_refused(text: str, line: str) -> None:
    for mode in ("enforce", "warn", "audit"):
        decision = rule(text, mode).judge(command(line), context())
        assert [(hit.rule, hit.what) for hit in decision.hits] == [("rule", "refused")]
        assert isinstance(decision.verdict, Refuse) is (mode == "enforce")
        if isinstance(decision.verdict, Refuse):
            assert b"-DENIED keyrail/rule: it is unknown which arguments of this " in decision.verdict.error


@pytest.mark.parametrize(("text", "line"), TOO_LONG)
def test_what_has_a_key_that_is_not_here_is_refused(text: str, line: str) -> None:
    words = line.split()
    index = words.index(LONG)
    argv = [b"a:" + b"x" * 62 if word == LONG else word.encode() for word in words]
    given = streamed(argv, index, 2**21)
    verdict = rule(text).judge(given, context()).verdict
    assert isinstance(verdict, Refuse)
    assert b": the key in argument %d is 2097152 bytes long, too long to be a name; " % index in verdict.error


@pytest.mark.parametrize(
    "text",
    [
        "names: {segments: 2..}",
        "one_slot: true",
        "lifetime: {default: 5m, types: [string, hash, list, set, zset, stream, other]}",
        "whole_collections: {}",
        "collections: {members: 1}",
    ],
)
def test_long_keys_are_a_way_around_nothing(text: str) -> None:
    """Whatever a rule does about a command, it does not let it pass when all of its keys are too long to be here."""
    policy, refused = rule(text), 0
    for line, keys in INVOCATIONS:
        plain = Command(STANDARD, split(line))
        decision = policy.judge(plain, context())
        if not keys or (decision.verdict == PASS and not decision.hidden and not decision.background):
            continue
        first, *others = [place for place, _ in plain.key_places]
        given = streamed(
            [b"x" * 64 if i in (first, *others) else word for i, word in enumerate(plain.argv)], first, 2**21
        )
        given.further = dict.fromkeys(others, 2**21)
        assert isinstance(policy.judge(given, context()).verdict, Refuse), line
        refused += 1
    assert refused > 3


@pytest.mark.parametrize(("text", "line"), CASES)
def test_what_redis_refuses_by_its_arity_is_left_to_redis(text: str, line: str) -> None:
    assert rule(text).judge(command(line.partition(" ")[0]), context()).verdict == PASS


@pytest.mark.source
def test_only_judges_may_raise_over_keys() -> None:
    """Code outside of a rule has no rule that refuses the command for it."""
    judging = ("commands/", "rules/", "policy/precedence.py", "policy/scope.py")
    # A command of unknown keys may be about each that is cached, and is refused to tenants.
    exempt = (*judging, "session/commands/cached_answers.py", "tenants/requests.py")
    for module, tree in trees().items():
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(
                    attr="keys" | "key_places", value=ast.Name(id="command") | ast.Attribute(attr="command")
                ):
                    assert module.startswith(exempt), f"proxy/{module}:{node.lineno}: use known_keys"


def test_no_exception_for_keys_is_for_unknown_ones_and_every_share_is() -> None:
    text = """
        rules: {rule: {names: {segments: 2..}, mode: enforce}}
        exceptions: [{rule: rule, keys: "a*", because: test}]
    """
    for line, refused in (("SUNION a b", True), ("SUNION a a", False), ("ZUNION 7 a", True)):
        assert isinstance(compiled(text).judge(command(line), context()).verdict, Refuse) is refused
    shared = compiled("rules: {rule: {names: {segments: 2..}}}\nrollout: {rule: enforce 1%}")
    assert isinstance(shared.judge(command("ZUNION 7 a"), context()).verdict, Refuse)
