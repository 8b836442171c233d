"""Readers of the values in a file.

Each ``read_…`` returns the value's meaning, or notes a problem and returns None. Reading then continues, so that all
problems of a file are reported at once. A file with problems is never used.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from proxy.policy_yaml import yaml_source
from proxy.policy_yaml.errors import Where, shown
from proxy.policy_yaml.json_schema_recorder import ListRecorder, MappingRecorder, TextRecorder, note
from proxy.policy_yaml.misspelt import did_you_mean, meant_by
from proxy.policy_yaml.yaml_source import Problems, Scalar, Sequence, Value
from proxy.wire.numbers import read_digits

T = TypeVar("T")
Span: TypeAlias = tuple[int, int | None]
"""Least and most; None for no most."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([0-9]{1,9}[smhdw])+")
_DURATION_PART = re.compile(r"([0-9]+)([smhdw])")
_LONGEST = 36_500 * 86_400
_SPAN = re.compile(r"([0-9]{1,9})(?:(\.\.)([0-9]{1,9})?)?")
_SIZE = re.compile(r"([1-9][0-9]{0,5})(B|KB|MB|GB)")
SIZE_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
"""In bytes."""
_PERCENT = re.compile(r"([0-9]{1,2}(?:\.[0-9]{1,3})?)%")
_INTEGER = re.compile(r"[0-9]{1,9}")
_LONGEST_TEXT = 200
_ALIKE = 0.7
"""The likeness, from 0 to 1, from which a key counts as a misspelling of a known one."""


class Fields:
    """The keys of a mapping. Each key is asked for once; a key that no reader asked for is unknown."""

    def __init__(self, mapping: yaml_source.Mapping, problems: Problems) -> None:
        self.where = mapping.where
        self.path = mapping.path
        self.problems = problems
        self._mapping = mapping
        self._known: list[str] = []

    def take(self, key: str) -> Value | None:
        """The value of a key; None if it is missing."""
        self._known.append(key)
        if isinstance(self._mapping, MappingRecorder):
            return self._mapping.take(key)
        return self._mapping.entries.get(key)

    def read(self, key: str, read: Callable[[Value, Problems], T | None], default: T) -> T:
        """The value of a key as `read` returns it; `default` if it is missing or wrong."""
        value = self.take(key)
        if value is None:
            return default
        result = read(value, self.problems)
        return default if result is None else result

    def maybe(self, key: str, read: Callable[[Value, Problems], T | None]) -> T | None:
        """The value of a key as `read` returns it; None if it is missing or wrong."""
        value = self.take(key)
        return None if value is None else read(value, self.problems)

    def require(self, key: str, read: Callable[[Value, Problems], T | None], default: T, expected: str) -> T:
        """The value of a required key; if it is missing or wrong, `default`, and a problem is noted."""
        if self.lacks(key):
            self.problems.add(self.where, self.path_of(key), "nothing", expected)
        return self.read(key, read, default)

    def __contains__(self, key: str) -> bool:
        return key in self._mapping.entries

    def says_more_than(self, key: str) -> bool:
        """Whether the mapping has any other key."""
        return bool(self._mapping.keys.keys() - {key})

    def line_of(self, key: str) -> Where:
        """The place of a key, or of the mapping if the key is missing."""
        return self._mapping.keys.get(key, self.where)

    def path_of(self, key: str) -> str:
        """The path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def finish(self) -> None:
        """Note every key that no reader asked for, and suggest a known one for a misspelt one."""
        known = [*dict.fromkeys(self._known)]
        for key, where in self._mapping.keys.items():
            if key not in known:
                meant = did_you_mean(key, known, _ALIKE)
                self.problems.add(where, self.path_of(key), "an unknown key", f"one of {', '.join(known)}{meant}")

    def lacks(self, key: str) -> bool:
        """Whether a key is missing, and no unknown key may be a misspelling of it."""
        others = (each for each in self._mapping.keys if each not in self._known)
        return key not in self and all(meant_by(other, (key,), _ALIKE) is None for other in others)


def read_mapping(value: Value, problems: Problems) -> yaml_source.Mapping | None:
    """A mapping."""
    if isinstance(value, TextRecorder | ListRecorder):
        return MappingRecorder(value.node, value.mode)
    if isinstance(value, yaml_source.Mapping):
        return value
    problems.unexpected(value, "a mapping")
    return None


def read_fields(value: Value, problems: Problems) -> Fields | None:
    """A mapping with known keys."""
    mapping = read_mapping(value, problems)
    return None if mapping is None else Fields(mapping, problems)


def read_list(value: Value, problems: Problems) -> tuple[Scalar, ...] | None:
    """A list of one or more texts."""
    note(value, type="array", items={"type": ["string", "number"]}, minItems=1)
    if not isinstance(value, Sequence) or not value.items:
        problems.unexpected(value, "a list such as [A, B]")
        return None
    scalars = []
    for item in value.items:
        if isinstance(item, Scalar) and item.text:
            scalars.append(item)
        else:
            problems.unexpected(item, "text")
    return tuple(scalars)


def one_or_more(
    read: Callable[[Value, Problems], T | None], covers: Callable[[T, T], bool] | None = None
) -> Callable[[Value, Problems], tuple[T, ...] | None]:
    """One value, or a list of one or more; with `covers`, a value that another one of the list covers is an error."""

    def read_all(value: Value, problems: Problems) -> tuple[T, ...] | None:
        if not isinstance(value, Sequence):
            one = read(value, problems)
            return None if one is None else (one,)
        found: list[T] = []
        for item in read_list(value, problems) or ():
            one = read(item, problems)
            if one is not None:
                other = next((each for each in found if covers is not None and covers(each, one)), None)
                if other is not None:
                    problems.unexpected(item, f"a value that {other} does not cover already")
                else:
                    found.append(one)
        return tuple(found) or None

    return read_all


def choice(choices: Mapping[str, T]) -> Callable[[Value, Problems], T | None]:
    """One of a few words."""

    def read(value: Value, problems: Problems) -> T | None:
        note(value, enum=[_as_editors_take_it(word) for word in choices])
        if isinstance(value, Scalar) and value.text in choices:
            return choices[value.text]
        problems.unexpected(value, f"one of {', '.join(choices)}" if len(choices) > 1 else next(iter(choices)))
        return None

    return read


read_switch = choice({"true": True, "false": False, "on": True, "off": False, "yes": True, "no": False})
"""True or false, in the words of YAML."""


def _as_editors_take_it(word: str) -> str | int | bool:
    return word == "true" if word in {"true", "false"} else word if (number := read_digits(word)) is None else number


def scan(value: Value, pattern: re.Pattern[str], expected: str, problems: Problems) -> re.Match[str] | None:
    """Text of this form; `expected` describes the form."""
    note(value, type=["string", "integer"], pattern=f"^(?:{pattern.pattern})$")
    match = pattern.fullmatch(value.text) if isinstance(value, Scalar) else None
    if match is None:
        problems.unexpected(value, expected)
    return match


def integer(least: int, most: int) -> Callable[[Value, Problems], int | None]:
    """A whole number of a range, both ends included."""
    expected = f"a whole number from {least} to {most}"

    def read(value: Value, problems: Problems) -> int | None:
        if note(value, type="integer", minimum=least, maximum=most):
            return None
        match = scan(value, _INTEGER, expected, problems)
        if match is None:
            return None
        if least <= int(match[0]) <= most:
            return int(match[0])
        problems.unexpected(value, expected)
        return None

    return read


def read_duration(value: Value, problems: Problems) -> int | None:
    """A time in seconds, written with its unit: ``30s``, ``5m``, ``1h30m``."""
    expected = "a time with its unit, such as 30s, 5m, 2h or 1d, from 1s to 36500d"
    match = scan(value, _DURATION, expected, problems)
    if match is None:
        return None
    seconds = sum(int(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(match[0]))
    if 1 <= seconds <= _LONGEST:
        return seconds
    problems.unexpected(value, expected)
    return None


def write_duration(seconds: int) -> str:
    """A time as policies write it: ``1h30m``."""
    parts = []
    for unit in "dhms":
        count, seconds = divmod(seconds, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def read_size(value: Value, problems: Problems) -> int | None:
    """A number of bytes, written with its unit as Redis reads it: ``512B``, ``10KB`` (10,240 bytes), ``1MB``."""
    match = scan(value, _SIZE, "a size with its unit, such as 512B, 10KB or 1MB", problems)
    return None if match is None else int(match[1]) * SIZE_UNITS[match[2]]


def read_percent(value: Value, problems: Problems) -> float | None:
    """A share, written ``10%``, as 0.1; less than 100%."""
    match = scan(value, _PERCENT, "a percentage from 0% to 99%, such as 10%", problems)
    return None if match is None else float(match[1]) / 100


def read_span(value: Value, problems: Problems) -> Span | None:
    """Least and most, written ``2..6``, ``2..`` (no most) or ``3``."""
    match = scan(value, _SPAN, "a number or a span, such as 3, 2..6 or 2..", problems)
    if match is None:
        return None
    least = int(match[1])
    most = least if match[2] is None else None if match[3] is None else int(match[3])
    if least >= 1 and (most is None or least <= most):
        return least, most
    problems.unexpected(value, "a span that starts at 1 or more and does not end before it starts")
    return None


def read_line(value: Value, problems: Problems) -> str | None:
    """One line of text, for error replies."""
    note(value, type="string", maxLength=_LONGEST_TEXT)
    text = " ".join(value.text.split()) if isinstance(value, Scalar) else ""
    if text and text.isprintable() and len(text) <= _LONGEST_TEXT:
        return text
    problems.unexpected(value, f"one line of text, at most {_LONGEST_TEXT} characters")
    return None


def read_separator(value: Value, problems: Problems) -> str | None:
    """One visible ASCII character."""
    if isinstance(value, Scalar) and len(value.text) == 1 and "!" <= value.text <= "~":
        return value.text
    problems.unexpected(value, f"one visible ASCII character, such as {shown(':')}")
    return None
