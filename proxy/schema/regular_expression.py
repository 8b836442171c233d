"""A key pattern as a regular expression over text, in the syntax that ECMAScript (flag ``u``) and Python share: that of
JSON Schema.

Keys are bytes, and JSON has only text: a key that is no UTF-8 has no place there. A set of bytes beyond ASCII occurs
only in "any byte but the separator", which is any character but that one.
"""

from itertools import groupby

from proxy.schema.expressions import Chain, Either, Expression, OneOf, Repeated
from proxy.schema.patterns import Literal, Part, Pattern, expression_of

_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_IN_CLASS = frozenset("\\]^-")
_END = r"(?![\s\S])"
"""The end of the text: ``$`` also matches before a last line end in Python."""


def regular_expression(pattern: Pattern) -> str:
    """Matches the keys that the pattern matches, from their first character to their last.

    Where two placeholders have nothing between, each needs a character here, and only a byte in the pattern.
    """
    separator = pattern.separator.decode()
    segments = ("".join(_part(part, pattern.separator) for part in segment) for segment in pattern.segments)
    return f"^{_escaped(separator).join(segments)}{_END}"


def _part(part: Part, separator: bytes) -> str:
    if isinstance(part, Literal):
        return _escaped(part.text.decode())
    if part.words:
        return f"(?:{'|'.join(_escaped(word.decode()) for word in part.words)})"
    if part.kinds:
        return _times(expression_of(part, separator), 1)
    return r"[\s\S]+" if part.rest else f"[^{_in_class(separator.decode())}]+"


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in _SYNTAX else char for char in text)


def _in_class(char: str) -> str:
    return f"\\{char}" if char in _IN_CLASS else char


def _alone(expression: Expression) -> Expression:
    """The only option, where there is one."""
    while isinstance(expression, Either) and len(expression.options) == 1:
        (expression,) = expression.options
    return expression


def _as_one(expression: Expression) -> str:
    """The expression as something that a quantifier may follow."""
    alone = _alone(expression)
    return _text(alone) if isinstance(alone, OneOf) else f"(?:{_text(alone)})"


def _text(expression: Expression) -> str:
    match expression:
        case OneOf(bytes=read):
            return _class([byte for byte in range(256) if read >> byte & 1])
        case Chain(parts=parts):
            return "".join(_times(part, sum(1 for _ in same)) for part, same in groupby(parts))
        case Either(options=options):
            return "|".join(map(_text, options))
        case Repeated(body=body, or_not=or_not):
            return _as_one(body) + ("*" if or_not else "+")


def _times(part: Expression, count: int) -> str:
    if count > 1:
        return f"{_as_one(part)}{{{count}}}"
    alone = _alone(part)
    return _as_one(alone) if isinstance(alone, Either) else _text(alone)


def _class(members: list[int]) -> str:
    """A set of characters, neighbours as ranges; one that is alone stands for itself, none for what never matches."""
    if not members:
        return "(?!)"
    if len(members) == 1:
        return _escaped(chr(members[0]))
    ranges = []
    for _, run in groupby(enumerate(members), lambda each: each[1] - each[0]):
        first, *others = (_in_class(chr(byte)) for _, byte in run)
        ranges.append(first if not others else f"{first}{'-' if len(others) > 1 else ''}{others[-1]}")
    return f"[{''.join(ranges)}]"
