"""The pattern language of a key schema.

    cart:{user:int}                  literal text, and a placeholder that holds an integer
    queue:{app}:{name:slug}          {app} is one segment: any bytes but the separator, at least one
    {env:prod|staging}:jobs          one of a few words
    order:{id:int|uuid}              one of a few kinds
    cache:checkout:{path...}         the rest of the key: one segment or more, any bytes; only at the end
    cart:{{{user:int}}}:items        {{ and }} are braces of the key itself, as in Python's format strings:
                                     here a Redis hash tag around a placeholder, the key cart:{42}:items

The kinds of a placeholder:

    date    a day, 2026-01-15 or 20260115
    uuid    32 hexadecimal digits in groups of 8-4-4-4-12
    int     digits
    hex     hexadecimal digits
    slug    small letters and digits, in groups that single hyphens join
    word    letters, digits, underscore, hyphen and dot

A placeholder may share its segment with text or with others (``v{major:int}``, ``{from}-{to}``). Its name is
documentation: it may occur once in a pattern, and the matched text is not kept.

If the languages of two patterns do not tell which is the more specific one (see ``automaton``), their segments do, from
the left. A segment is as specific as its loosest placeholder: text, then a few words, then the kinds in the order
above, then any segment, then the rest. Of two segments with the same loosest placeholder, the one with text around it
is more specific.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from proxy.schema.expressions import ANY_BYTE, Chain, Either, Expression, OneOf, Repeated, byte_set, text, times

_DIGITS = b"0123456789"
_SMALL = b"abcdefghijklmnopqrstuvwxyz"
_LETTERS = _SMALL + _SMALL.upper()
_DIGIT = OneOf(byte_set(_DIGITS))
_HEX_DIGIT = OneOf(byte_set(_DIGITS + b"abcdefABCDEF"))
_SMALL_OR_DIGIT = OneOf(byte_set(_SMALL + _DIGITS))
_HYPHEN = text(b"-")
_HYPHEN_AND_FOUR = Chain((_HYPHEN, times(_HEX_DIGIT, 4)))


def _words(*words: bytes) -> Either:
    return Either(tuple(text(word) for word in words))


_ONE_TO_NINE = OneOf(byte_set(b"123456789"))
_MONTH = Either((Chain((text(b"0"), _ONE_TO_NINE)), _words(b"10", b"11", b"12")))
_DAY = Either((Chain((text(b"0"), _ONE_TO_NINE)), Chain((OneOf(byte_set(b"12")), _DIGIT)), _words(b"30", b"31")))
_YEAR = times(_DIGIT, 4)

KINDS: dict[str, Expression] = {
    "date": Either((Chain((_YEAR, _HYPHEN, _MONTH, _HYPHEN, _DAY)), Chain((_YEAR, _MONTH, _DAY)))),
    "uuid": Chain((times(_HEX_DIGIT, 8), times(_HYPHEN_AND_FOUR, 3), _HYPHEN, times(_HEX_DIGIT, 12))),
    "int": Repeated(_DIGIT),
    "hex": Repeated(_HEX_DIGIT),
    "slug": Chain(
        (Repeated(_SMALL_OR_DIGIT), Repeated(Chain((_HYPHEN, Repeated(_SMALL_OR_DIGIT))), or_not=True)),
    ),
    "word": Repeated(OneOf(byte_set(_LETTERS + _DIGITS + b"_-."))),
}
"""The text that a placeholder of each kind matches; the most specific kind first."""

_SPECIFICITY = {kind: rank for rank, kind in enumerate(("literal", "words", *KINDS, "segment", "rest"))}
_LONGEST = 512
_LONGEST_SHOWN = 60


class PatternError(ValueError):
    """A pattern that cannot be read. `offset` counts characters of `text`."""

    def __init__(self, text: str, offset: int, expected: str) -> None:
        shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
        super().__init__(f"{shown!r} at offset {offset}: expected {expected}")
        self.text = text
        self.offset = offset
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Literal:
    """Text of the key itself."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A part that differs from key to key. `kinds` are names of KINDS; or `words` are all allowed texts. Without either
    it is any segment, or with `rest` all remaining segments."""

    name: str
    kinds: tuple[str, ...] = ()
    words: tuple[bytes, ...] = ()
    rest: bool = False

    @property
    def specificity(self) -> int:
        """Lower is more specific."""
        if self.kinds:
            return max(_SPECIFICITY[kind] for kind in self.kinds)
        return _SPECIFICITY["words" if self.words else "rest" if self.rest else "segment"]


Part: TypeAlias = Literal | Placeholder


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of keys: its segments, each of one part or more; an empty segment has none."""

    text: str
    separator: bytes
    segments: tuple[tuple[Part, ...], ...]

    @property
    def specificity(self) -> tuple[tuple[int, bool], ...]:
        """The specificity of each segment, to be compared from the left; lower is more specific."""
        return tuple(_segment_specificity(parts) for parts in self.segments)

    @property
    def expression(self) -> Expression:
        """The keys that it matches, as an expression."""
        parts: list[Expression] = []
        for i, segment in enumerate(self.segments):
            if i:
                parts.append(text(self.separator))
            parts += (expression_of(part, self.separator) for part in segment)
        return Chain(tuple(parts))


def _segment_specificity(parts: tuple[Part, ...]) -> tuple[int, bool]:
    loosest = max((part.specificity for part in parts if isinstance(part, Placeholder)), default=0)
    return loosest, not any(isinstance(part, Literal) for part in parts)


def expression_of(part: Part, separator: bytes) -> Expression:
    """What a part of a segment matches."""
    if isinstance(part, Literal):
        return text(part.text)
    if part.words:
        return _words(*part.words)
    if part.kinds:
        return Either(tuple(_without(KINDS[kind], byte_set(separator)) for kind in part.kinds))
    return Repeated(OneOf(ANY_BYTE if part.rest else ANY_BYTE & ~byte_set(separator)))


def _without(expression: Expression, separator: int) -> Expression:
    """The expression without the separator: if the dot separates segments, ``word`` has no dot."""
    match expression:
        case OneOf(bytes=read):
            return OneOf(read & ~separator)
        case Chain(parts=parts):
            return Chain(tuple(_without(part, separator) for part in parts))
        case Either(options=options):
            return Either(tuple(_without(option, separator) for option in options))
        case Repeated(body=body, or_not=or_not):
            return Repeated(_without(body, separator), or_not)


_TOKEN = re.compile(r"\{\{|\}\}|\{(?P<body>[^{}]*)\}|[^{}]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_DOUBLED = re.compile(r"(?<!\{)\{\{[A-Za-z_][A-Za-z0-9_-]*(?::(?P<kind>[^{}]*)|(?P<rest>\.\.\.))\}\}")


def parse_pattern(source: str, separator: str = ":") -> Pattern:
    """The pattern that the text describes; `separator` is an ASCII character, but no letter, digit, brace or bar.

    Raises PatternError.
    """
    if len(separator) != 1 or not "!" <= separator <= "~" or separator.isalnum() or separator in "{}|":
        raise ValueError(f"{separator!r} cannot separate segments")
    return _Parser(source, separator).parse()


class _Parser:
    def __init__(self, source: str, separator: str) -> None:
        self._source = source
        self._separator = separator
        self._segments: list[list[Part]] = [[]]
        self._names: set[str] = set()

    def parse(self) -> Pattern:
        if not 1 <= len(self._source) <= _LONGEST:
            raise PatternError(self._source, 0, f"1 to {_LONGEST} characters")
        self._check_doubled()
        for offset, token, body in self._tokens():
            if self._segments[-1] and self._segments[-1][-1] in self._rests():
                raise PatternError(self._source, offset, "nothing behind a rest such as {name...}")
            if body is None:
                self._add_text(token)
            else:
                self._add_placeholder(offset + 1, body)
        segments = tuple(tuple(parts) for parts in self._segments)
        return Pattern(self._source, self._separator.encode(), segments)

    def _rests(self) -> list[Part]:
        return [part for part in self._segments[-1] if isinstance(part, Placeholder) and part.rest]

    def _tokens(self) -> Iterator[tuple[int, str, str | None]]:
        """Each token with its offset; for a placeholder also the text in its braces."""
        offset = 0
        while offset < len(self._source):
            match = _TOKEN.match(self._source, offset)
            if match is None and self._source[offset] == "}":
                raise PatternError(self._source, offset, "a { before it, or }} for a brace of the key itself")
            if match is None:
                raise PatternError(self._source, offset, "a } behind it, or {{ for a brace of the key itself")
            token = match[0]
            yield offset, token[0] if token in {"{{", "}}"} else token, match["body"]
            offset = match.end()

    def _check_doubled(self) -> None:
        # {{user:int}} is the text {user:int}, which no key has: the author means a hash tag around a placeholder.
        for match in _DOUBLED.finditer(self._source):
            if match["rest"] or match["kind"] in KINDS or "|" in match["kind"]:
                meant = f"{{{match[0]}}}"
                raise PatternError(self._source, match.start(), f"{meant}, which is a placeholder in a hash tag")

    def _add_text(self, token: str) -> None:
        first, *others = token.split(self._separator)
        self._extend(first)
        for segment in others:
            self._segments.append([])
            self._extend(segment)

    def _extend(self, token: str) -> None:
        parts = self._segments[-1]
        if not token:
            return
        if parts and isinstance(parts[-1], Literal):
            parts[-1] = Literal(parts[-1].text + token.encode())
        else:
            parts.append(Literal(token.encode()))

    def _add_placeholder(self, offset: int, body: str) -> None:
        name, colon, of = body.partition(":")
        rest = not colon and name.endswith("...")
        name = name.removesuffix("...") if rest else name
        if not _NAME.fullmatch(name):
            expected = "a name of letters, digits, _ and -, then a kind such as :int, or ... for the rest"
            raise PatternError(self._source, offset, expected)
        if name in self._names:
            raise PatternError(self._source, offset, f"each name once; {name!r} is a second time")
        self._names.add(name)
        if rest and self._segments[-1]:
            raise PatternError(self._source, offset, "a rest such as {name...} at the start of a segment")
        kinds, words = self._read_kind(offset + len(name) + 1, of) if colon else ((), ())
        self._segments[-1].append(Placeholder(name, kinds, words, rest))

    def _read_kind(self, offset: int, of: str) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        options = of.split("|")
        known = [option for option in options if option in KINDS]
        if len(known) == len(options) == len(set(options)):
            return tuple(options), ()
        if len(options) == 1:
            raise PatternError(self._source, offset, f"one of {', '.join(KINDS)}, or words such as prod|staging")
        if known:
            raise PatternError(self._source, offset, f"only words or only kinds; {known[0]} is a kind")
        if "" in options or len(set(options)) < len(options):
            raise PatternError(self._source, offset, "each word once, and none empty")
        if any(self._separator in option for option in options):
            raise PatternError(self._source, offset, f"words without the separator {self._separator!r}")
        return (), tuple(option.encode() for option in options)
