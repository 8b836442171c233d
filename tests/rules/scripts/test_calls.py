"""The calls of a script, with the keys and arguments of one run: which words are keys, and whether they are
declared."""

import pytest

from proxy.commands.table import STANDARD
from proxy.rules.scripts.calls import CalledCommand, Inputs, PreparedCall, inputs_of
from proxy.rules.scripts.text import read_script
from tests.rules.given import command, streamed

RUN = Inputs((b"k:1", b"k:2"), (b"a:1", b"2"))
LOADED = Inputs(later=True)


def called(arguments: str, inputs: Inputs = RUN) -> CalledCommand:
    (call,) = read_script(b"redis.call(%s)" % arguments.encode()).calls
    return PreparedCall(STANDARD, call).called(inputs)


@pytest.mark.parametrize(
    ("arguments", "argv", "keys"),
    [
        ("'GET', KEYS[2]", "GET k:2", "k:2"),
        ("'SET', 'x', ARGV[1], 'EX', 10", "SET x a:1 EX 10", "x"),
        ("'MSET', KEYS[1], v, 'x', v", "MSET k:1 _ x _", "k:1 x"),
        ("'MGET', unpack(KEYS)", "MGET k:1 k:2", "k:1 k:2"),
        ("'DEL', 'x', unpack(KEYS)", "DEL x k:1 k:2", "x k:1 k:2"),
        ("'ZUNIONSTORE', 'd', ARGV[2], 'a', 'b', 'WEIGHTS', v, v", "ZUNIONSTORE d 2 a b WEIGHTS _ _", "d a b"),
        ("'SORT', 'l', 'STORE', KEYS[1]", "SORT l STORE k:1", "l k:1"),
        ("'SET', 'x', f()", "SET x", "x"),
        ("'RPUSH', KEYS[1], unpack(t)", "RPUSH k:1", "k:1"),
        ("'PUBLISH', 'c', v", "PUBLISH c _", ""),
        ("'PFMERGE', 'x'", "PFMERGE x", "x"),
        ("'OBJECT', 'ENCODING', 'x'", "OBJECT ENCODING x", "x"),
        ("'GET', KEYS[i]", "GET _", ""),
        ("'SCAN', v", "SCAN _", ""),
    ],
)
def test_keys_that_are_declared_or_literals(arguments: str, argv: str, keys: str) -> None:
    found = called(arguments)
    assert [word or b"_" for word in found.argv] == argv.encode().split()
    assert [key.name.decode() for key in found.keys] == keys.split()
    assert not found.undeclared


@pytest.mark.parametrize(
    "arguments",
    [
        "'GET', ARGV[1]",
        "'GET', key",
        "'GET', KEYS[1] .. 'x'",
        "'MGET', KEYS[1], unpack(t)",
        "'DEL', f()",
        "'DEL', unpack(ARGV)",
        "'ZUNION', n, KEYS[1], KEYS[2]",
        "'ZUNIONSTORE', KEYS[1], 1, x",
        "'SORT', 'l', 'BY', x",
        "'SORT', 'l', x, KEYS[1]",
        "'SORT', KEYS[1], 'BY', 'nosort', 'GET', 'user:*'",
        "'XREAD', x, 1, 'STREAMS', KEYS[1], 0",
        "'GEORADIUS', 'g', 1, 1, 1, 'km', f()",
        "'NO.SUCH', KEYS[1]",
        "'OBJECT', x, KEYS[1]",
    ],
)
def test_keys_that_are_neither_are_undeclared(arguments: str) -> None:
    assert called(arguments).undeclared


def test_an_undeclared_key_is_judged_by_its_value_where_that_is_known() -> None:
    found = called("'GET', ARGV[1]")
    assert [(key.name, key.write) for key in found.named] == [(b"a:1", False)]
    assert [key.name for key in called("'MSET', KEYS[1], 1, 'x', 1").named] == [b"x"]
    assert called("'GET', ARGV[9]").keys == ()


@pytest.mark.parametrize(
    ("arguments", "undeclared"),
    [
        ("'ZUNION', ARGV[2], 'a', 'b'", False),
        ("'ZUNION', ARGV[2], 'a', x", False),
        ("'ZUNION', 2, unpack(KEYS)", False),
        ("'MGET', unpack(KEYS)", False),
        ("'MGET', unpack(t)", True),
        ("'GET', ARGV[1]", True),
        ("'GET', x", True),
    ],
)
def test_of_a_script_that_is_only_loaded_what_its_run_will_tell_is_left_open(arguments: str, undeclared: bool) -> None:
    assert called(arguments, LOADED).undeclared is undeclared


def test_inputs_are_those_of_the_command() -> None:
    assert inputs_of(command("EVAL text 2 a b c d")) == Inputs([b"a", b"b"], [b"c", b"d"])
    assert inputs_of(command("EVALSHA sha 0")) == Inputs([], [])
    assert inputs_of(command("SCRIPT LOAD text")) == Inputs(later=True)
    for text in ("FCALL f 1 a", "FUNCTION LOAD text", "EVAL text 3 a", "EVAL text -1 a", "EVAL text x a"):
        assert inputs_of(command(text)) == Inputs()
    large = streamed([b"EVAL", b"text", b"1", b"k", b"x", b""], 5, 2_000_000)
    assert inputs_of(large) == Inputs([b"k"], [b"x", None])
