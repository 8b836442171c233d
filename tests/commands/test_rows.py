"""The facts about a command beyond the engines' tables are in its row, and nowhere else, but for the decisions about
tenants, which are a table of their own beside the rows."""

import ast
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.commands.possible_changes import _OF_THE_CONNECTION
from proxy.commands.row import Row
from proxy.commands.rows import ALL, ROWS
from proxy.commands.table import STANDARD
from tests.engines import Engine, client_ids
from tests.keyrail_process import DIRECT, Keyrail, package_folder
from tests.program_source import trees
from tests.resp import eventually

NAMES = {name for spec in STANDARD.specs[1:] for name in (spec.name, spec.display)}
EXCEPTIONS = {
    ("commands/possible_changes.py", " ".join(sorted(_OF_THE_CONNECTION))): "a choice: what may run however late it is",
    ("local_cache/expected.py", "CLUSTER INFO"): "one command, CLUSTER INFO, as its arguments",
    ("cli/acl_prove.py", "DISCARD EXEC MULTI WATCH"): "it sends the others inside of MULTI, so these are asked alone",
    ("cli/acl_prove.py", "HOST: POST"): "a server closes the connection on them",
    ("cli/doctor/examination.py", "CONFIG GET"): "doctor sends it",
    ("commands/values.py", "GET INCRBY SET"): "options of BITFIELD",
    ("commands/values.py", "INCRBY SET"): "options of BITFIELD",
    ("net/follow/cluster_watch.py", "CLUSTER INFO"): "Keyrail asks each node for it",
    ("net/connection/engine.py", "CLIENT EVAL EXPIRE MSETEX"): "they are tried out, with arguments of their own",
    ("net/connection/engine.py", "COMMAND INFO"): "one command that Keyrail sends",
    ("net/connection/lacking.py", "EVAL EXPIRE"): "Keyrail sends them: the notice says which one takes another's place",
    (
        "net/connection/lacking.py",
        "EXPIRE MSETEX",
    ): "Keyrail sends them: the notice says which one takes another's place",
    ("policy/acl/own_commands.py", "AUTH HELLO QUIT RESET"): "a choice: what an ACL cannot deny, so it is not asked",
    ("policy/acl/own_commands.py", "EVAL EXPIRE"): "Keyrail sends them",
    (
        "policy/acl/own_commands.py",
        (
            "ASKING CLIENT|GETNAME CLIENT|REPLY CLIENT|SETINFO CLIENT|SETNAME COMMAND|INFO DBSIZE DISCARD EXEC EXISTS "
            "MULTI PING PTTL READONLY SELECT TTL TYPE"
        ),
    ): "Keyrail sends them as a client's user",
    (
        "policy/acl/own_commands.py",
        (
            "CLIENT|NO-TOUCH CLIENT|TRACKING CLUSTER|COUNTKEYSINSLOT CLUSTER|GETKEYSINSLOT CLUSTER|INFO CLUSTER|MYID "
            "CLUSTER|NODES CLUSTER|SLOTS COMMAND HPTTL INFO MEMORY|USAGE PFCOUNT ROLE SCAN SCRIPT|LOAD TOUCH"
        ),
    ): "Keyrail sends them as its own user",
    ("rules/keys_by_scan/rule.py", "EXISTS SCAN"): "the rule sends them",
    ("server/evidence/learn/learn.py", "FLUSHALL SHUTDOWN"): "what a learnt policy is tried with",
    ("traffic/command_form.py", "GEOADD HSETEX XADD ZADD"): "their options stand before their values",
    ("rules/lifetime/rule.py", "EVAL EXPIRE"): "the rule sends them",
    ("rules/lifetime/rule.py", "GET SET"): "one command that the rule sends: GET is an option of it",
    ("rules/lifetime/ttl_commands.py", "EVAL EXEC EXISTS EXPIRE TTL TYPE"): "the rule sends them",
    ("rules/lifetime/ttl_commands.py", "EXEC EXISTS TTL TYPE"): "the rule sends them",
}
"""The only words side by side outside the rows that commands have as names, by the file, and why."""

SINGLE = {
    ("net/connection/lacking.py", "EXPIRE"): "Keyrail sends it: the notice says what takes its place",
    ("policy/scope.py", "KEYS"): "it is asked for its pattern",
    ("policy/scope.py", "SCAN"): "it is asked for its pattern",
    ("rules/databases/rule.py", "MIGRATE"): "the database that it names is data",
    ("rules/keys_by_scan/rule.py", "KEYS"): "the rule is about this one",
    ("rules/lifetime/rule.py", "MSET"): "what is sent in its place is answered otherwise",
    ("rules/lifetime/rule.py", "MSETNX"): "what is sent in its place has an option",
    ("rules/lifetime/rule.py", "SETNX"): "what is sent in its place has an option, and is answered otherwise",
    ("session/commands/hidden_commands.py", "ASKING"): "the session notes what it says of the connection",
    ("session/commands/hidden_commands.py", "CLIENT|TRACKING"): "the session notes what it says of the connection",
}
"""The only single commands that the name of a client's command is compared with, and why."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    tables = ("commands/rows.py", "commands/tenant_commands.py", "commands/compressed_values.py")
    return ((path, tree) for path, tree in trees().items() if path not in tables)


def told(nodes: list[ast.expr]) -> set[str]:
    """The commands that constants name."""
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    texts = {value.decode("latin-1") if isinstance(value, bytes) else value for value in values}
    return NAMES & {text for text in texts if isinstance(text, str)}


def named_together(node: ast.AST) -> set[str]:
    """The commands that one expression names side by side: a collection, a call, comparisons, patterns, or a text."""
    match node:
        case ast.Set() | ast.List() | ast.Tuple():
            return told(node.elts)
        case ast.Dict():
            return told([key for key in node.keys if key is not None])
        case ast.Call():
            return told(node.args) | (NAMES & {keyword.arg for keyword in node.keywords if keyword.arg})
        case ast.BoolOp():
            compared = [each for value in node.values for each in ast.walk(value) if isinstance(each, ast.Constant)]
            return told([*compared]) if all(isinstance(value, ast.Compare) for value in node.values) else set()
        case ast.MatchOr():
            return told([pattern.value for pattern in node.patterns if isinstance(pattern, ast.MatchValue)])
        case ast.Constant(value=str() as text):
            words = text.split()
            return set(words) if len(words) > 1 and set(words) <= NAMES and text not in NAMES else set()
        case _:
            return set()


def facts(tree: ast.AST) -> Iterator[str]:
    """The groups of commands that a module names, each as a text."""
    for node in ast.walk(tree):
        names = named_together(node)
        if len(names) > 1:
            yield " ".join(sorted(names))


@pytest.mark.source
def test_no_other_file_states_facts_about_commands() -> None:
    found = {(path, names) for path, tree in modules() for names in facts(tree)}
    assert found == EXCEPTIONS.keys()


@pytest.mark.parametrize(
    "code",
    [
        '_PUSHES = frozenset({"LPUSH", "RPUSH"})',
        '_PUSHES = ("LPUSH", b"RPUSH")',
        '_MEASURES = {"HLEN": 1, "LLEN": 2}',
        "_MEASURES = dict(HLEN=1, LLEN=2)",
        '_PUSHES = _names("LPUSH RPUSH")',
        '_PUSHES = """\n    LPUSH RPUSH\n    CLIENT|ID"""',
        'push = name == "LPUSH" or name == "RPUSH"',
        'match name:\n    case "LPUSH" | "RPUSH":\n        pass',
    ],
)
def test_facts_are_recognized(code: str) -> None:
    assert list(facts(ast.parse(code))) != []


@pytest.mark.parametrize(
    "code",
    [
        'DENIED = "the connection is between WATCH and EXEC"',
        'ask([b"CLIENT", b"SETNAME", name])',
        'kind = spec.name == "KEYS"',
        'flushed = "SCRIPT FLUSH"',
    ],
)
def test_what_is_no_fact_is_left_alone(code: str) -> None:
    assert list(facts(ast.parse(code))) == []


def compared(tree: ast.AST) -> Iterator[str]:
    """The single commands that something called a name is compared with."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=ast.Attribute(attr="name") | ast.Name(id="name"), comparators=[other]):
                yield from told([other])
            case ast.Match(subject=ast.Attribute(attr="name") | ast.Name(id="name"), cases=cases):
                yield from told([each.pattern.value for each in cases if isinstance(each.pattern, ast.MatchValue)])


@pytest.mark.source
def test_few_commands_are_treated_by_name() -> None:
    assert {(path, name) for path, tree in modules() for name in compared(tree)} == SINGLE.keys()


def test_a_command_has_one_row_and_says_something_in_it() -> None:
    assert [row.name for row in ALL] == list(ROWS)
    assert [row.name for row in ALL if row == Row(row.name)] == []


def test_rows_name_other_commands_that_exist() -> None:
    named = {name for row in ALL for name in (row.ttl_with, row.alias_of, row.interchangeable, row.read_with) if name}
    measures = {name for row in ALL for each in (row.derives, row.whole) if each is not None for name in each.measures}
    measures |= {row.grows.measure for row in ALL if row.grows is not None}
    assert {name for name in named | measures if STANDARD.find(name) is None} == set()
    assert {name for name in measures if ROWS[name].measures is None} == set()


MADE_UP = """
    Row(
        "ACME.PUT",
        Published("acme-1.0", -3, "write denyoom fast", "RW 1"),
        types="set",
        creates=_SET,
        stores=Stores("2..", "2.."),
        grows=Grows("SCARD"),
    ),
"""
POLICY = """
keyrail: 1
defaults: {mode: enforce}
schema:
  user: {key: "user:{id}", type: set}
  text: {key: "text:{id}", type: string}
rules:
  key-names: {names: {separator: ":", segments: 2}}
  key-types: {schema: type}
  batches: {sizes: {members: 2}}
  caps: {collections: {members: 3}}
  ttl: {lifetime: {default: 1h}}
"""


@pytest.mark.skipif(DIRECT, reason="there are no commands in a relay")
def test_a_made_up_command_is_judged_pooled_counted_and_given_its_ttl_by_one_row(
    new_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    """SADD under a name that no table knows, on an engine that has it, and a Keyrail with one row more."""
    package = tmp_path / "proxy"
    shutil.copytree(package_folder(), package, ignore=shutil.ignore_patterns("*.so"))
    data = package / "commands" / "rows.py"
    first, opening, rest = data.read_text().partition("ALL: tuple[Row, ...] = (")
    data.write_text(first + opening + MADE_UP + rest)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    engine = new_engine(options={"rename-command": "SADD ACME.PUT"})
    keyrail = Keyrail(engine.url, policy=policy, package=package)
    try:
        _judged(keyrail)
        _pooled(keyrail, engine)
        assert 3590 <= int(str(engine.do("TTL", "user:1"))) <= 3600
        eventually(lambda: _writes(keyrail, "user:1") == 4)
    finally:
        keyrail.close()


def _judged(keyrail: Keyrail) -> None:
    with keyrail.wire() as wire:
        assert wire.ask("ACME.PUT", "user:1", "a") == b":1\r\n"
        misnamed = wire.ask("ACME.PUT", "user", "a")
        assert misnamed.startswith(b"-DENIED keyrail/key-names: the key 'user' (argument 1 of ACME.PUT)")
        assert wire.ask("ACME.PUT", "text:1", "a").startswith(b"-DENIED keyrail/key-types: ")
        assert wire.ask("ACME.PUT", "user:1", *"abc").startswith(
            b"-DENIED keyrail/batches: the command writes 3 members"
        )
        assert [wire.ask("ACME.PUT", "user:2", *members) for members in ("ab", "cd")] == [b":2\r\n"] * 2
        assert wire.ask("ACME.PUT", "user:2", "e").startswith(b"-DENIED keyrail/caps: the set 'user:2' ")


def _pooled(keyrail: Keyrail, engine: Engine) -> None:
    with engine.wire() as direct:
        before = client_ids(direct)
        with keyrail.wire() as one, keyrail.wire() as other:
            for wire in (one, other, one):
                assert wire.ask("ACME.PUT", "user:1", "a") == b":0\r\n"
            assert client_ids(direct) == before


def _writes(keyrail: Keyrail, name: str) -> int:
    keys: Any = keyrail.hot_keys()["keys"]
    return sum(int(key["writes"]) for key in keys if key["key"] == name)
