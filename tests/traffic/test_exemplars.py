"""Commands are made again from exemplars as far as these tell, and never further."""

from __future__ import annotations

import shlex

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.traffic.command_form import exemplar, form_of
from proxy.traffic.exemplars import MOST_BYTES, ExemplarError, Remade, expanded, nearest, remade
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.shapes import shape


def again(argv: list[bytes], redact: Redact = Redact.NONE) -> Remade | None:
    command = Command(STANDARD, argv)
    words = exemplar(command, Redaction(redact, b"secret"), 1.0).words
    first = shape(command.known_keys[0].name) if command.known_keys else ""
    return remade(words, command.name, first, form_of(command), STANDARD)


def test_values_become_as_many_bytes_that_are_no_words() -> None:
    assert expanded(["SET", "k", "<2 bytes>", "EX", "<0 bytes>"]) == [b"SET", b"k", b"__", b"EX", b""]
    assert expanded(["GET", "<2 bytes", "x<2 bytes>"]) == [b"GET", b"<2 bytes", b"x<2 bytes>"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["SET", "k", f"<{MOST_BYTES} bytes>", "<1 bytes>"], "16,777,216 bytes, the most"),
        (["MGET", "a", "<77 more>"], "77 arguments of the command are left out"),
    ],
)
def test_what_cannot_be_made_says_why(words: list[str], said: str) -> None:
    with pytest.raises(ExemplarError, match=said):
        expanded(words)


@pytest.mark.parametrize(
    ("line", "redact", "keys", "hidden"),
    [
        ("GET a:1", Redact.NONE, [b"a:1"], False),
        ("GET a:1", Redact.HASH, [b"a:{int}"], True),
        ("GET a:1", Redact.SHAPE, [b"a:{int}"], True),
        ("GET main:config", Redact.HASH, [b"main:config"], False),
        ("GET main:config", Redact.SHAPE, [b"main:config"], False),
        ("GET #12345678", Redact.NONE, [b"#12345678"], False),
        ("GET a#12345678", Redact.NONE, [b"a#12345678"], False),
        ("MGET a b:1", Redact.HASH, [b"a", b"b:{int}"], True),
        ("MGET a b#12345678", Redact.NONE, [b"a", b"b#12345678"], False),
        ("GET a...", Redact.NONE, [b"a..."], False),
        (f"GET {'a:' * 99}", Redact.NONE, [b"a:" * 64 + b"..."], True),
        ("GET '<5 bytes>'", Redact.NONE, [b"<5 bytes>"], True),
        ("GET 'a b'", Redact.NONE, [b"a b"], False),
    ],
)
def test_keys(line: str, redact: Redact, keys: list[bytes], hidden: bool) -> None:
    made = again([word.encode() for word in shlex.split(line)], redact)
    assert made is not None
    assert ([key.name for key in made.command.keys], made.hidden) == (keys, hidden)


def test_bytes_of_a_key_come_back() -> None:
    made = again([b"GET", b"\xff\x00\\x41"])
    assert made is not None
    assert made.command.keys[0].name == b"\xff\x00\\x41"


@pytest.mark.parametrize("step", ["k{}", "k{} v", "k{} v w"])
def test_a_long_command_is_filled_to_its_form(step: str) -> None:
    name = {1: "MGET", 2: "MSET", 3: "ZADD z"}[len(step.split())]
    made = again(f"{name} {' '.join(step.format(number) for number in range(60))}".encode().split())
    assert made is not None or name.startswith("ZADD")
    assert made is None or made.cut


def test_a_command_of_another_form_is_none() -> None:
    assert remade(["MGET", "a", "b"], "MGET", "a", "keys=5", STANDARD) is None
    assert remade(["MGET", "a", "b"], "DEL", "a", "keys=2", STANDARD) is None
    assert remade([], "GET", "", "", STANDARD) is None
    assert again([b"RESTORE", b"k", b"0", b"\x0d\x10" + b"x" * 20]) is None  # how large it is unpacked is not told


# The nearest command


@pytest.mark.parametrize(("name", "step"), [("MGET", "k{}"), ("MSET", "k{} v"), ("BITFIELD b", "GET u8 {}")])
def test_the_nearest_to_a_long_command_has_its_form(name: str, step: str) -> None:
    command = Command(STANDARD, f"{name} {' '.join(step.format(number) for number in range(60))}".encode().split())
    words = exemplar(command, Redaction(Redact.NONE, b""), 1.0).words
    made = nearest(words, shape(command.keys[0].name), form_of(command), STANDARD)
    assert made is not None
    assert (form_of(made.command), len(made.command.argv), made.cut) == (form_of(command), len(command.argv), True)


def test_the_nearest_is_a_command_where_none_has_the_form() -> None:
    words = ["MGET", "a", "b", "<20 more>"]
    assert remade(words, "MGET", "a", "keys=5", STANDARD) is None
    made = nearest(words, "a", "keys=5", STANDARD)
    assert made is not None
    assert [key.name for key in made.command.keys] == [b"a", b"b"] * 11
    made = nearest(["NONSENSE", "<3 bytes>"], "", "keys=5", STANDARD)
    assert made is not None
    assert (made.command.argv, made.filled, made.cut) == ([b"NONSENSE", b"___"], True, False)
    assert nearest([], "a", "keys=5", STANDARD) is None


def test_the_nearest_is_never_large() -> None:
    made = nearest(["MSET", "a", f"<{10**17} bytes>", "<999999 more>"], "a", "", STANDARD)
    assert made is not None
    assert len(made.command.argv) <= 10_003
    assert max(map(len, made.command.argv)) == 1 << 20
    assert len({id(word) for word in made.command.argv if len(word) == 1 << 20}) == 1, "it is there once"


@pytest.mark.parametrize(
    ("words", "plain", "hidden"),
    [
        (["GET", "a:{int}"], False, True),
        (["GET", "a:{int}"], True, False),
        (["GET", "a:{int}#12345678"], False, True),
        (["GET", "a:" * 64 + "..."], True, True),
        (["GET", "a:1\udcff"], False, False),
    ],
)
def test_the_nearest_says_whether_keys_are_hidden(words: list[str], plain: bool, hidden: bool) -> None:
    made = nearest(words, "a:{int}", "keys=1", STANDARD, plain=plain)
    assert made is not None
    assert made.hidden == hidden
