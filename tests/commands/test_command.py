"""A command without its wire format: its printable name, its keys, and an argument that is still arriving."""

import pytest

from proxy.commands.command import Command, Key
from proxy.commands.table import STANDARD
from proxy.wire.request import Request


def test_a_known_command_has_its_spec_name_and_keys() -> None:
    command = Command(STANDARD, [b"rename", b"a", b"b"])
    assert command.name == "RENAME"
    assert command.spec is STANDARD.find("RENAME")
    assert command.keys == (Key(1, b"a", write=True), Key(2, b"b", write=True))
    assert repr(command) == "Command('RENAME', 3 arguments)"


def test_a_subcommand_is_named_as_people_write_it() -> None:
    assert Command(STANDARD, [b"config", b"set", b"a", b"b"]).name == "CONFIG SET"


@pytest.mark.parametrize(
    ("sent", "shown"),
    [(b"nope", "NOPE"), (b"no\r\npe\x00\xff", "NO??PE??"), (b"", ""), (b"x" * 1000, "X" * 64)],
)
def test_an_unknown_name_is_shown_only_as_far_as_it_is_harmless(sent: bytes, shown: str) -> None:
    command = Command(STANDARD, [sent, b"k"])
    assert (command.name, command.spec.id) == (shown, 0)


def test_a_command_without_arguments_is_unknown() -> None:
    assert Command(STANDARD, []).spec.id == 0


def test_a_streamed_argument_leaves_the_keys_as_they_are() -> None:
    command = Command(STANDARD, [b"SET", b"k", b""], streamed=2, streamed_length=1 << 28)
    assert (command.streamed, command.streamed_length) == (2, 1 << 28)
    assert command.keys == (Key(1, b"k", write=True),)


def test_a_spec_that_is_known_already_is_not_looked_up_again() -> None:
    spec = STANDARD.find("DEL")
    assert spec is not None
    assert Command(STANDARD, [b"k-is-not-looked-at", b"k"], spec).spec is spec


def test_judging_a_command_leaves_the_keys_that_the_hot_path_found() -> None:
    request = Request.from_argv([b"MSET", b"a", b"1", b"b", b"2"])
    assert STANDARD.keys.find(STANDARD.lookup.find(request), request) == 2
    assert len(Command(STANDARD, [b"ZUNIONSTORE", b"d", b"2", b"x", b"y"]).keys) == 3
    assert list(STANDARD.keys.indexes[:2]) == [1, 3]


def test_long_arguments_are_keys_in_full_and_never_options() -> None:
    long = b"store" * 1000
    command = Command(STANDARD, [b"SORT", long, b"GET", long, b"STORE", long + b"!"])
    assert [key.name for key in command.keys] == [long, long + b"!"]
