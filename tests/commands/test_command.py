"""A command apart from the wire: its name as it may be shown, its keys, and an argument that is still on its way."""

import pytest

from proxy.commands.command import Command, Key
from proxy.commands.table import STANDARD


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
    assert (command.name, command.spec.id, command.keys) == (shown, 0, ())


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
