"""The keys that a script can use are known only where its text proves it."""

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.rules.scripts.memory import sha_of
from proxy.rules.scripts.own_keys import LONGEST, OwnKeys

SET = b"return redis.call('SET', KEYS[1], ARGV[1])"


def run(*argv: bytes) -> Command:
    return Command(STANDARD, list(argv))


def proved(text: bytes, *inputs: bytes) -> set[bytes] | None:
    scripts, command = OwnKeys(), run(b"EVAL", text, *inputs)
    assert scripts.of(command, STANDARD) is None, "it has not run before"
    return scripts.of(command, STANDARD)


@pytest.mark.parametrize(
    ("text", "inputs", "keys"),
    [
        (SET, (b"2", b"a", b"b", b"x"), {b"a", b"b"}),
        (b"redis.call('INCR', 'literal') return redis.call('GET', KEYS[1])", (b"1", b"a"), {b"a", b"literal"}),
        (b"return redis.call('DEL', unpack(KEYS))", (b"2", b"a", b"b"), {b"a", b"b"}),
        (b"return redis.call('PING')", (b"0",), set()),
        (b"return 1", (b"1", b"a"), {b"a"}),
    ],
)
def test_a_script_that_names_its_keys(text: bytes, inputs: tuple[bytes, ...], keys: set[bytes]) -> None:
    assert proved(text, *inputs) == keys


@pytest.mark.parametrize(
    "text",
    [
        b"return redis.call('SET', ARGV[1], 'x')",
        b"return redis.call('SET', 'a' .. KEYS[1], 'x')",
        b"KEYS[1] = 'other' return redis.call('SET', KEYS[1], 'x')",
        b"return redis.call(ARGV[1], KEYS[1])",
        b"local call = redis.call return call('SET', KEYS[1], 'x')",
        b"return loadstring(ARGV[1])()",
        b"return redis.call('FLUSHALL')",
        b"return redis.call('SWAPDB', 0, 1)",
        b"return redis.call('COPY', KEYS[1], KEYS[1], 'DB', 1)",
        b"redis.call('SELECT', 1) return redis.call('SET', KEYS[1], 'x')",
        b"return redis.call('RANDOMKEY')",
        b"return redis.call('SORT', KEYS[1], 'BY', 'other*')",
        b"return redis.call('NOSUCHCOMMAND', KEYS[1])",
        b"return redis.call('CONFIG', ARGV[1])",
        b"-- " + b"x" * LONGEST,
    ],
)
def test_a_script_that_may_use_others(text: bytes) -> None:
    assert proved(text, b"1", b"a", b"b") is None


def test_a_script_that_is_run_by_its_sha() -> None:
    scripts = OwnKeys()
    by_sha = run(b"EVALSHA", sha_of(SET).upper(), b"1", b"a", b"x")
    assert scripts.of(by_sha, STANDARD) is None
    scripts.note(run(b"SCRIPT", b"LOAD", SET))
    assert scripts.of(by_sha, STANDARD) is None, "it has not run before"
    assert scripts.of(by_sha, STANDARD) == {b"a"}
    assert scripts.of(run(b"EVALSHA_RO", sha_of(SET), b"1", b"c", b"x"), STANDARD) == {b"c"}


@pytest.mark.parametrize("number", [b"2", b"-1", b"x"])
def test_a_wrong_number_of_keys(number: bytes) -> None:
    assert proved(SET, number, b"a") is None


def test_functions_and_incomplete_commands_prove_nothing() -> None:
    scripts = OwnKeys()
    for argv in ((b"FCALL", b"f", b"1", b"a"), (b"EVAL",), (b"EVALSHA",), (b"SCRIPT", b"LOAD")):
        scripts.note(run(*argv))
        assert scripts.of(run(*argv), STANDARD) is None


def test_a_streamed_text_and_a_streamed_key_prove_nothing() -> None:
    scripts = OwnKeys()
    scripts.of(run(b"EVAL", SET, b"1", b"a", b"x"), STANDARD)
    for place in (1, 3):
        command = run(b"EVAL", SET, b"1", b"a", b"x")
        command.streamed, command.streamed_length = place, 1 << 20
        assert scripts.of(command, STANDARD) is None
    assert scripts.of(run(b"EVAL", SET, b"1", b"a", b"x"), STANDARD) == {b"a"}


def test_texts_are_forgotten_where_they_are_too_many() -> None:
    scripts = OwnKeys(most=2000)
    first = run(b"EVAL", SET, b"1", b"a", b"x")
    scripts.note(first)
    scripts.of(first, STANDARD)
    for number in range(3):
        scripts.note(run(b"SCRIPT", b"LOAD", b"return %d" % number))
    assert scripts.of(run(b"EVALSHA", sha_of(SET), b"1", b"a", b"x"), STANDARD) is None
    scripts.of(first, STANDARD)
    assert scripts.of(first, STANDARD) == {b"a"}
