"""Matching a name against the patterns of a policy costs at most the product of both lengths.

Every setting with patterns is here, and gets the worst names. The time limits are for stalls: a matcher with
backtracking needs seconds for names of 20 KB.
"""

import ast
from collections.abc import Callable, Iterator
from time import process_time
from typing import ParamSpec

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.policy.apps import Caller, identify
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.context import Context
from proxy.rules.memory import Memory
from proxy.schema.globs import LONGEST
from tests.policy.given import compile_policy, policy, problems
from tests.program_source import trees
from tests.schema.test_globs import worst_names

STALL = 1.0
"""Seconds of this process's own time: for one name some milliseconds are usual."""
SIZES = (20_000, 100_000)
"""From small to large, so that a matcher that goes back is found before it takes hours."""

STARS = ("a:*:b:*:c", "*-a-*-b-*", "*" + "a" * (LONGEST - 2) + "b", ("*a" * LONGEST)[: LONGEST - 1] + "b")
LISTED = ", ".join(f'"{pattern}"' for pattern in STARS)

KEYS = {
    "limits": "".join(f'l{i}: {{limits: {{keys: "{stars}", rate: 9/s}}}}\n' for i, stars in enumerate(STARS)),
    "lifetime": f"cached: {{lifetime: {{default: 5m, keys: [{LISTED}]}}}}",
    "sliding": f"cached: {{lifetime: {{default: 5m, sliding: true, keys: [{LISTED}]}}}}",
    "exceptions": "no-get: {refuse: [GET, SET]}",
    "names": """
        words: {names: {segments: 1.., banned: [aaab, "a:b"], banned_segments: [aa, b], hash_tags: {banned: [a, ab]}}}
        types: {names: {segment_types: [slug, "int|hex|word", "a|aa|aaa"]}}
        prefixes: {names: {prefixes: {default: ["a:", "aa", "b"]}}}
    """,
    "schema": "known: {names: {in_schema: true}}",
    "scope": f"""
        some: {{refuse: [GET, SET], keys: [{LISTED}], mode: warn}}
        most: {{refuse: [GET, SET], except: [{LISTED}], mode: warn}}
    """,
    "replica_reads": f"moved: {{replica_reads: {{keys: [{LISTED}]}}}}",
}
"""Rules, by what takes the patterns."""
SECTIONS = {
    "exceptions": "\n".join(f'- {{rule: no-get, keys: "{stars}", because: x}}' for stars in STARS),
    "schema": "\n".join(
        f'{name}: {{key: "{pattern}"}}'
        for name, pattern in (
            ("words", "a{a:word}a{b:word}a{c:word}"),
            ("slugs", "{a:slug}-a-{b:slug}-b"),
            ("rest", "a:{a}:{b...}"),
        )
    ),
}
APPS = ("user", "client_name", "listener", "certificate")


Given = ParamSpec("Given")


def stalls(act: Callable[Given, object], *given: Given.args, **named: Given.kwargs) -> bool:
    begun = process_time()
    act(*given, **named)
    return process_time() - begun > STALL


def indented(text: str) -> str:
    return "".join(f"  {line.strip()}\n" for line in text.strip().splitlines())


def names_of(size: int) -> Iterator[bytes]:
    for stars in STARS:
        yield from sorted(set(worst_names(stars.encode(), size)))[:8]
    yield from (unit * (size // len(unit)) for unit in (b"{", b"{a}", b"a:{b:"))


def caller(now: float = 0.0) -> Context:
    return Context("default", "", 0, in_transaction=False, now=now, random=lambda: 0.5)


@pytest.mark.parametrize("place", KEYS)
def test_no_key_stalls_a_rule(place: str) -> None:
    sections = f"{place}:\n{indented(SECTIONS[place])}" if place in SECTIONS else ""
    loaded = policy(f"defaults: {{mode: enforce}}\nrules:\n{indented(KEYS[place])}{sections}")
    rules = compile_policy(loaded, STANDARD, memory=Memory(1))
    for size in SIZES:
        for name in names_of(size):
            for words in ([b"GET", name], [b"SET", name, b"v"]):
                command = Command(STANDARD, words)
                assert not stalls(rules.judge, command, caller()), (size, name[:40])


@pytest.mark.parametrize("field", APPS)
def test_no_client_stalls_its_recognition(field: str) -> None:
    listed = "".join(f'a{i}: {{match: {{{field}: "{stars}"}}}}\n' for i, stars in enumerate(STARS))
    apps = policy(f"rules: {{}}\napps:\n{indented(listed)}").apps
    for size in SIZES:
        for name in names_of(size):
            known = Caller(**{"user": "default", field: name.decode()})
            assert not stalls(identify, apps, known), (size, name[:40])


MANY = ", ".join(f"w{i * 7919 % 99991:05}xyz" for i in range(1000))
INTRICATE = {
    "limits": "".join(f'l{i}: {{limits: {{keys: "*a{i}*b*c{i}*", rate: 9/s}}}}\n' for i in range(20)),
    "replica_reads": "".join(f'r{i}: {{replica_reads: {{keys: ["*a{i}*b*c{i}*"]}}}}\n' for i in range(20)),
    "banned": f"words: {{names: {{banned: [{MANY}]}}}}",
    "prefixes": f"own: {{names: {{prefixes: {{default: [{MANY}]}}}}}}",
}
"""Rules whose automata take long to make, or would have states without end."""


@pytest.mark.parametrize("place", INTRICATE)
def test_no_policy_takes_long_to_compile(place: str) -> None:
    loaded = policy(f"defaults: {{mode: enforce}}\nrules:\n{indented(INTRICATE[place])}")
    begun = process_time()
    compile_policy(loaded, STANDARD)
    assert process_time() - begun < 10, "workers compile policies while their clients wait"


def test_a_schema_without_end_is_an_error() -> None:
    key = "{r:word}a" + "".join(f"{{w{i}:a|b}}" for i in range(50))
    begun = process_time()
    with pytest.raises(PolicyError, match="patterns that are too complex together"):
        policy(f'schema: {{k: {{key: "{key}"}}}}')
    assert process_time() - begun < 20


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("rules: {a: {limits: {keys: %s, rate: 1/s}}}", "rules.a.limits.keys"),
        ("rules: {a: {lifetime: {default: 5m, keys: %s}}}", "rules.a.lifetime.keys"),
        ("rules: {a: {local_cache: {keys: %s}}}", "rules.a.local_cache.keys"),
        ("rules: {a: {lifetime: {default: 5m, keys: [b, %s]}}}", "rules.a.lifetime.keys[1]"),
        ("rules: {a: {replica_reads: {keys: [b, %s]}}}", "rules.a.replica_reads.keys[1]"),
        ("rules: {a: {compress: {keys: [b, %s]}}}", "rules.a.compress.keys[1]"),
        ("rules: {a: {refuse: [GET]}}\nexceptions: [{rule: a, keys: %s, because: x}]", "exceptions[0].keys"),
        ("rules: {a: {refuse: [GET], keys: %s}}", "rules.a.keys"),
        ("rules: {a: {refuse: [GET], except: [b, %s]}}", "rules.a.except[1]"),
        *((f"rules: {{}}\napps: {{a: {{match: {{{field}: %s}}}}}}", f"apps.a.match.{field}") for field in APPS),
    ],
)
def test_patterns_have_a_longest_length(text: str, path: str) -> None:
    assert problems(text % ("a" * LONGEST)) == []
    (problem, *_) = problems(text % ("a" * (LONGEST + 1)))
    assert f": {path}: found " in problem
    assert f"of at most {LONGEST} characters" in problem


@pytest.mark.parametrize("special", ["a?", "a[bc]", "a]", "a\\\\*"])
@pytest.mark.parametrize(
    "text",
    [
        'rules: {a: {limits: {keys: "%s", rate: 1/s}}}',
        'rules: {a: {lifetime: {default: 5m, keys: "%s"}}}',
        'rules: {a: {local_cache: {keys: "%s"}}}',
        'rules: {a: {replica_reads: {keys: ["%s"]}}}',
        'rules: {a: {compress: {keys: ["%s"]}}}',
        'rules: {a: {refuse: [GET], keys: "%s"}}',
        'rules: {a: {refuse: [GET]}}\nexceptions: [{rule: a, keys: "%s", because: x}]',
    ],
)
def test_patterns_of_keys_are_one_language(text: str, special: str) -> None:
    assert any("in which only * is special (without ? [ ] \\)" in problem for problem in problems(text % special))


# What would be another matcher

READERS = {"read_key_pattern", "read_key_patterns", "read_pattern", "parse_pattern"}
KNOWN_READERS = {
    "policy_yaml/globs.py",
    "rules/compress/yaml.py",
    "rules/lifetime/yaml.py",
    "rules/limits/yaml.py",
    "rules/local_cache/yaml.py",
    "policy/sections/apps.py",
    "policy/sections/exceptions.py",
    "policy/sections/rules.py",
    "policy/sections/schema.py",
    "rules/names/faults.py",
    "rules/replica_reads/yaml.py",
    "server/evidence/learn/families.py",
    "server/evidence/learn/learn.py",
    "server/evidence/schema_share.py",
}
"""Whose patterns the tests above feed; those that are learnt are made of shapes, and no more than a budget, and those
of evidence are a policy's that was in force."""


def calls_of(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


@pytest.mark.source
def test_every_reader_of_patterns_is_tested_here() -> None:
    used = {path: {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} for path, tree in trees().items()}
    assert {path for path, names in used.items() if names & READERS} == KNOWN_READERS


@pytest.mark.source
def test_no_expression_is_made_of_what_somebody_gave() -> None:
    """`re` goes back, and so may `fnmatch`: in a function, an expression is a literal or a module's own constant. The
    one that is made of a client's pattern has nothing that repeats or chooses (cluster/test_forged_cursors.py)."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert "fnmatch" not in names, path
                assert not (isinstance(node, ast.ImportFrom) and node.module == "re"), path
        functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        inside = (node for node in ast.walk(tree) if isinstance(node, functions))
        for call in (call for function in inside for call in calls_of(function)):
            named = call.func
            if isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name) and named.value.id == "re":
                made = named.attr != "escape" and not isinstance(call.args[0], ast.Constant)
                assert not made or path == "cluster/key_pattern.py", (path, call.lineno)
