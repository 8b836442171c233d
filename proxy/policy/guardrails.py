"""The YAML of each guardrail: the key that names it in a rule, and what may stand under it."""

import difflib
from collections.abc import Callable, Mapping

from proxy.commands.table import STANDARD, Spec
from proxy.commands.twins import interchangeable
from proxy.policy.errors import shown
from proxy.policy.fields import (
    Fields,
    Span,
    choice,
    integer,
    read_duration,
    read_fields,
    read_list,
    read_mapping,
    read_percent,
    read_separator,
    read_span,
)
from proxy.policy.yaml_source import Problems, Scalar, Value
from proxy.rules.lifetime import LifetimeSettings
from proxy.rules.names import CHARACTERS, NamesSettings
from proxy.rules.order import Settings
from proxy.rules.refuse import RefuseSettings
from proxy.rules.replace import ReplaceSettings

_LONGEST_NAME = 65_535
_NEVER_REFUSED = ("AUTH", "DISCARD", "EXEC", "HELLO", "QUIT", "RESET", "UNWATCH")
"""Without these a client cannot log in, or cannot leave a state that it is in."""
_ANY_NUMBER: Span = (1, None)
_ACCESS = {"all": (True, True), "reads": (True, False), "writes": (False, True)}


def _read_command(scalar: Scalar, problems: Problems) -> Spec | None:
    spec = STANDARD.find(scalar.text)
    if spec is None:
        names = [each.display for each in STANDARD.specs[1:]]
        close = difflib.get_close_matches(scalar.text.upper(), names, 1)
        problems.unexpected(scalar, f"a command; did you mean {close[0]}?" if close else "a command")
    return spec


def _read_refused(scalar: Scalar, problems: Problems) -> str | None:
    name = " ".join(scalar.text.upper().replace("|", " ").split())
    if "." in name and " " not in name and name.isascii() and name.isprintable():
        return name  # a module's command: the engine behind may have modules that no table knows
    spec = _read_command(scalar, problems)
    if spec is not None and spec.display in _NEVER_REFUSED:
        problems.unexpected(
            scalar, "a command that a client can do without; it needs this one to log in or to end a state"
        )
    return None if spec is None else spec.display


def _read_refuse(value: Value, rule: Fields) -> Settings | None:
    commands: dict[str, None] = {}
    for scalar in read_list(value, rule.problems) or ():
        command = _read_refused(scalar, rule.problems)
        if command in commands:
            rule.problems.unexpected(scalar, "each command once")
        elif command is not None:
            commands[command] = None
    return RefuseSettings(tuple(commands)) if commands else None


def _read_replace(value: Value, rule: Fields) -> Settings | None:
    mapping = read_mapping(value, rule.problems)
    if mapping is None:
        return None
    if not mapping.entries:
        rule.problems.unexpected(mapping, "pairs such as {DEL: UNLINK}")
    pairs = []
    for key, target_value in mapping.entries.items():
        path = f"{mapping.path}.{key}"
        command = _read_command(Scalar(key, mapping.keys[key], path), rule.problems)
        if not isinstance(target_value, Scalar):
            rule.problems.unexpected(target_value, "a command")
            continue
        target = _read_command(target_value, rule.problems)
        if command is None or target is None:
            continue
        if not interchangeable(command.display, target.display):
            expected = f"a command with the same arguments and the same replies as {command.display}"
            rule.problems.unexpected(target_value, expected)
        pairs.append((command.display, target.display))
    return ReplaceSettings(tuple(pairs))


def _read_names(value: Value, rule: Fields) -> Settings | None:
    reads, writes = rule.read("applies_to", choice(_ACCESS), (True, True))
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    most = integer(1, _LONGEST_NAME)
    max_length = fields.take("max_length")
    segments = fields.take("segments")
    least_segments, most_segments = fields.read("segments", read_span, _ANY_NUMBER)
    settings = NamesSettings(
        characters=fields.read("characters", choice({name: name for name in CHARACTERS}), "any"),
        min_length=fields.read("min_length", integer(0, _LONGEST_NAME), 1),
        max_length=None if max_length is None else most(max_length, rule.problems),
        separator=fields.read("separator", read_separator, ":"),
        min_segments=least_segments,
        max_segments=most_segments,
        empty_segments=fields.read("empty_segments", choice({"allow": True, "refuse": False}), segments is None),
        reads=reads,
        writes=writes,
    )
    fields.finish()
    _check_names(settings, fields)
    return settings


def _check_names(settings: NamesSettings, fields: Fields) -> None:
    """Standards that no name can meet."""
    problems = fields.problems
    longest = _LONGEST_NAME if settings.max_length is None else settings.max_length
    if settings.min_length > longest:
        expected = f"at most max_length, which is {longest}"
        problems.add(fields.line_of("min_length"), fields.path_of("min_length"), str(settings.min_length), expected)
    shortest = settings.min_segments - 1 if settings.empty_segments else 2 * settings.min_segments - 1
    if shortest > longest:
        expected = f"so few that they fit into {longest} bytes, or no name passes"
        problems.add(fields.line_of("segments"), fields.path_of("segments"), settings.segments, expected)
    if settings.min_segments > 1 and settings.separator.encode() not in CHARACTERS[settings.characters]:
        expected = f"one of the {settings.characters} characters, or no name passes"
        problems.add(fields.line_of("separator"), fields.path_of("separator"), shown(settings.separator), expected)


def _read_lifetime(value: Value, rule: Fields) -> Settings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    if fields.take("default") is None:
        rule.problems.add(fields.where, fields.path_of("default"), "nothing", "a time such as 5m")
    settings = LifetimeSettings(
        default=fields.read("default", read_duration, 1),
        jitter=fields.read("jitter", read_percent, 0.0),
    )
    fields.finish()
    return settings


GUARDRAILS: Mapping[str, Callable[[Value, Fields], Settings | None]] = {
    "refuse": _read_refuse,
    "replace": _read_replace,
    "names": _read_names,
    "lifetime": _read_lifetime,
}
"""By its key in a rule: reads the value under it, and from the rule the keys that only this guardrail has."""
