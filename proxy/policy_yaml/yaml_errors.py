"""Errors of YAML syntax, in the form of all other problems: the line, the text found there, and the expected text.

PyYAML's own texts are about its parser. An unclosed bracket or quote is reported at the line where it opens; PyYAML
reports it at the end of the file.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

import yaml

Said: TypeAlias = tuple[str, str]
"""The text found, and the expected text."""

_WORDS = {
    "<stream end>": "the end of the file",
    "<document start>": "another document",
    "<scalar>": "text behind a value",
    "<block mapping start>": "keys at another indentation",
    "<block sequence start>": "a list at another indentation",
}
_OPENING = {"}": "{", "]": "["}
_QUOTES = "quotes around text that begins with this character"

_UNCLOSED: dict[re.Pattern[str], Callable[[re.Match[str]], Said]] = {
    re.compile(r"expected ',' or '(.)', but got '<stream end>'"): lambda match: (
        f"a {_OPENING[match[1]]} that is not closed",
        f"a {match[1]} behind it",
    ),
    re.compile("found unexpected end of stream"): lambda _: ("a quote that is not closed", "another quote behind it"),
    re.compile("could not find expected ':'"): lambda _: ("text that is no key", "a key with ': ' behind it"),
}
"""Faults that are reported at the line where the faulty part begins."""

_FAULTS: dict[re.Pattern[str], Callable[[re.Match[str]], Said]] = {
    re.compile(r"found character '\\t' that cannot start any token"): lambda _: ("a tab", "spaces"),
    re.compile("found character (.+) that cannot start any token"): lambda match: (match[1], _QUOTES),
    re.compile("mapping values are not allowed here"): lambda _: (
        "': ' after text that is not a key",
        "a line for each key, and quotes around text that holds ': '",
    ),
    re.compile("sequence entries are not allowed here"): lambda _: ("a '- ' behind a key", "a line of its own"),
    re.compile("but found another document"): lambda _: ("a second document", "one for each file"),
    re.compile(r"expected (',' or '.'), but got ':'"): lambda match: (
        "a second ': '",
        f"{match[1]}, or quotes around text that holds ': '",
    ),
    re.compile("expected <block end>, but found '(.+)'"): lambda match: (
        _WORDS.get(match[1], f"'{match[1]}'"),
        "a line with the indentation of those above",
    ),
    re.compile("found unknown escape character '(.+)'"): lambda match: (
        f"the escape \\{match[1]}",
        "an escape that YAML knows, or single quotes",
    ),
    re.compile("expected (.+), but (?:found|got) '(.+)'"): lambda match: (
        _WORDS.get(match[2], f"'{match[2]}'"),
        "a value" if match[1] == "the node content" else match[1],
    ),
    re.compile("found (.+)"): lambda match: (match[1], "YAML"),
}


def explained(error: yaml.YAMLError, text: str) -> tuple[int, str, str]:
    """The line of a fault in this text (0 if unknown), the text found there, and the expected text."""
    match error:
        case yaml.reader.ReaderError(position=position, character=character):
            found = f"the character U+{character:04X}"
            return line_at(text, position), found, "text without control characters"
        case yaml.MarkedYAMLError(problem=str(problem), problem_mark=mark, context_mark=begun):
            unclosed = _said(_UNCLOSED, problem)
            place = begun if unclosed is not None and begun is not None else mark
            found, expected = unclosed or _said(_FAULTS, problem) or (problem, "YAML")
            return 0 if place is None else place.line + 1, found, expected
        case _:
            return 0, " ".join(str(error).split()), "YAML"


def line_at(text: str | bytes, offset: int) -> int:
    """The line of an offset, from 1."""
    before = text[:offset]
    return 1 + (before.count("\n") if isinstance(before, str) else before.count(b"\n"))


def _said(faults: dict[re.Pattern[str], Callable[[re.Match[str]], Said]], problem: str) -> Said | None:
    return next((say(match) for pattern, say in faults.items() if (match := pattern.fullmatch(problem))), None)
