"""Commands as policies name them: ``FLUSHALL``, ``CONFIG SET``, ``FLUSHALL ASYNC``, in any letter case."""

import difflib
from collections.abc import Callable

from proxy.commands.table import STANDARD, Spec
from proxy.policy_yaml.fields import read_list
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value
from proxy.rules.listing import entry_of


def read_command(scalar: Scalar, problems: Problems) -> Spec | None:
    """A command of the standard table by its name; for a misspelt one a known name is suggested."""
    note(scalar, type="string")
    spec = STANDARD.find(scalar.text)
    if spec is None:
        _note_unknown(scalar, scalar.text.upper(), problems)
    return spec


def read_listed(scalar: Scalar, problems: Problems) -> str | None:
    """One line of a list: a command, perhaps with its first arguments.

    A name with a dot is a module's command: the engine may have modules that are in no table.
    """
    note(scalar, type="string")
    text = scalar.text
    if not (text.isascii() and text.isprintable()):
        problems.unexpected(scalar, "a command")
        return None
    entry = entry_of(text, STANDARD)
    spec = STANDARD.find(entry.command)
    if spec is None and "." in entry.command:
        return entry.text
    if spec is None or (spec.container and entry.words):
        _note_unknown(scalar, entry.text, problems)
        return None
    return entry.text


def read_listing(value: Value, problems: Problems) -> tuple[str, ...]:
    """A list of commands, each once."""
    listed: dict[str, None] = {}
    for scalar in read_list(value, problems) or ():
        text = read_listed(scalar, problems)
        if text in listed:
            problems.unexpected(scalar, "each command once")
        elif text is not None:
            listed[text] = None
    return tuple(listed)


def read_commands(
    value: Value, problems: Problems, fits: Callable[[Spec], bool], expected: str
) -> tuple[str, ...] | None:
    """A list of allowed commands, each once and without arguments; for others a problem with `expected` is noted."""
    commands: dict[str, None] = {}
    for scalar in read_list(value, problems) or ():
        spec = read_command(scalar, problems)
        if spec is None:
            continue
        if not fits(spec):
            problems.unexpected(scalar, expected)
        elif spec.name in commands:
            problems.unexpected(scalar, "each command once")
        commands[spec.name] = None
    return tuple(commands) or None


def _note_unknown(scalar: Scalar, name: str, problems: Problems) -> None:
    names = [each.display for each in STANDARD.specs[1:]]
    close = difflib.get_close_matches(name, names, 1)
    problems.unexpected(scalar, f"a command; did you mean {close[0]}?" if close else "a command")
