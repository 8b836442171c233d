"""A call whose name is an argument of the script is judged in each run by that name, and by nothing else."""

import pytest

from proxy.policy.compile import CompiledPolicy
from proxy.rules.scripts.memory import sha_of
from proxy.rules.scripts.text import read_script
from proxy.rules.verdict import Answer, Pass, Refuse, Verdict
from tests.policy.given import compiled
from tests.rules.given import command, context

POLICY = """
rules:
  no-keys: {refuse: [KEYS, FLUSHALL, CONFIG SET]}
  names: {names: {prefixes: ["a:"]}}
  scripts: {scripts: {commands: follow_rules, dynamic_calls: refuse}}
defaults: {mode: enforce}
"""
RELEASE = "redis.call('del', KEYS[1]) return redis.call(ARGV[1], KEYS[2], ARGV[2])"


def judged(bound: CompiledPolicy, *words: str) -> Verdict:
    return bound.judge(command(words[0], *(word.encode() for word in words[1:])), context()).verdict


@pytest.mark.parametrize(
    ("arguments", "refused_by"),
    [
        (("PUBLISH", "0"), ""),
        (("publish", "0"), ""),
        (("SPUBLISH", "0"), ""),
        (("SET", "0"), ""),
        (("KEYS", "0"), "KEYS, which no-keys refuses"),
        (("fLuShAlL", "0"), "FLUSHALL, which no-keys refuses"),
        (("CONFIG", "SET"), "chooses a subcommand of CONFIG at run time"),
        ((), "chooses at run time the command that redis.call runs"),
        (("", "0"), "chooses at run time the command that redis.call runs"),
        (("x" * 65, "0"), "chooses at run time the command that redis.call runs"),
    ],
)
def test_the_argument_names_the_command(arguments: tuple[str, ...], refused_by: str) -> None:
    verdict = judged(compiled(POLICY), "EVAL", RELEASE, "2", "a:1", "a:2", *arguments)
    if refused_by:
        assert isinstance(verdict, Refuse)
        assert refused_by in verdict.error.decode()
    else:
        assert verdict == Pass()


def test_its_keys_are_judged() -> None:
    bound, script = compiled(POLICY), "return redis.call(ARGV[1], ARGV[2])"
    assert judged(bound, "EVAL", script, "0", "GET", "a:1") == Pass()
    verdict = judged(bound, "EVAL", script, "0", "GET", "b:1")
    assert isinstance(verdict, Refuse)
    assert b"GET, which names refuses" in verdict.error


def test_a_script_that_is_loaded_is_judged_when_it_runs() -> None:
    bound = compiled(POLICY)
    sha = sha_of(RELEASE.encode()).decode()
    assert isinstance(judged(bound, "EVALSHA", sha, "0"), Answer)
    assert judged(bound, "SCRIPT", "LOAD", RELEASE) == Pass()
    assert judged(bound, "EVALSHA", sha, "2", "a:1", "a:2", "PUBLISH", "0") == Pass()
    assert isinstance(judged(bound, "EVALSHA", sha, "2", "a:1", "a:2", "KEYS", "0"), Refuse)
    assert isinstance(judged(bound, "EVALSHA", sha, "2", "a:1", "a:2"), Refuse)


@pytest.mark.parametrize(
    "script",
    [
        "ARGV[1] = 'KEYS' return redis.call(ARGV[1], '*')",
        "local a = ARGV a[1] = 'KEYS' return redis.call(ARGV[1], '*')",
        "ARGV = {'KEYS'} return redis.call(ARGV[1], '*')",
        "local ARGV = {'KEYS'} return redis.call(ARGV[1], '*')",
        "table.insert(ARGV, 1, 'KEYS') return redis.call(ARGV[1], '*')",
        "return redis.call(ARGV[#ARGV], '*')",
        "return redis.call(unpack(ARGV))",
        "return redis.call(ARGV[1] .. '', '*')",
        "return redis.call(ARGV[1], '*'), redis.call(ARGV[1] .. 'S', '*')",
        "local c = ARGV[1] c = 'KEYS' return redis.call(c, '*')",
    ],
)
def test_a_name_that_the_script_may_change_stays_unknown(script: str) -> None:
    verdict = judged(compiled(POLICY), "EVAL", script, "0", "PING")
    assert isinstance(verdict, Refuse)
    assert b"Keyrail cannot tell what it calls" in verdict.error


def test_who_does_not_know_the_arguments_is_told_that_the_text_is_dynamic() -> None:
    found = read_script(RELEASE.encode())
    assert found.dynamic == "chooses at run time the command that redis.call runs in line 1"
    assert found.still_dynamic == ""
