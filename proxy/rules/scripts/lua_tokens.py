"""The tokens of a Lua 5.1 text. Comments and strings, long ones included, are read as Lua reads them.

The lexical rules are those of ``llex.c`` in Lua 5.1, which Redis and Valkey embed.
"""

import re
from array import array
from typing import NamedTuple

MOST_STEPS = 25_000
"""Of reading one text: about 90 KB of code. The longest script of a well-known library takes 12,200."""

_TOKEN = re.compile(
    rb"""
    (?P<space> [ \t\r\n\f\v]+ )
  | (?P<comment> -- )
  | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<number> \.?[0-9][0-9.]* (?: [eE][+-]? )? [A-Za-z0-9_]* )
  | (?P<string> " (?: [^"\\\r\n] | \\ (?: \r\n | \n\r | [\x00-\xff] ) )* "
              | ' (?: [^'\\\r\n] | \\ (?: \r\n | \n\r | [\x00-\xff] ) )* ' )
  | (?P<long> \[ (?P<level> =* ) \[ )
  | (?P<sign> \.\.\.? | [=~<>]= | [-+*/%^#=<>(){}\[\];:,.] )
    """,
    re.VERBOSE,
)
_LONG_COMMENT = re.compile(rb"\[(=*)\[")
_LINE_END = re.compile(rb"[\r\n]")
_FIRST_NEWLINE = re.compile(rb"\r\n|\n\r|\n|\r")
_CLOSES = {b"(": b")", b"{": b"}", b"[": b"]"}
_CLOSING = frozenset(_CLOSES.values())


class UnreadableLuaError(Exception):
    """The text cannot be read as Lua; the message says where or why."""


class Budget:
    """The steps that the reading of one text may still take: tokens, comments, white space, and what is looked at
    again."""

    __slots__ = ("_left",)

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        """Raises UnreadableLuaError if there are no more."""
        self._left -= steps
        if self._left < 0:
            raise UnreadableLuaError("is too long to be read")


class Token(NamedTuple):
    """``kind`` is ``name`` (keywords too), ``number``, ``string``, ``sign`` or ``end``.

    For a string, ``text`` is its content; ``plain`` means that it has no escapes and no NUL, at which Redis may stop
    reading. ``at`` is its offset in the script, in bytes.
    """

    kind: str
    text: bytes
    at: int
    plain: bool = True

    def is_sign(self, *signs: bytes) -> bool:
        """Whether it is one of these signs."""
        return self.kind == "sign" and self.text in signs

    def is_name(self, *names: bytes) -> bool:
        """Whether it is one of these names or keywords."""
        return self.kind == "name" and self.text in names


class Tokens:
    """All tokens of a script, with an end token behind the last one, and for each bracket its partner."""

    def __init__(self, text: bytes, position: int, budget: Budget) -> None:
        """Raises UnreadableLuaError."""
        self.budget = budget
        self._text = text
        self.all = self._read(position)
        self._partners = array("i", bytes(4 * len(self.all)))
        self._match_brackets()

    def __getitem__(self, i: int) -> Token:
        return self.all[i] if 0 <= i < len(self.all) else self.all[-1]

    def __len__(self) -> int:
        return len(self.all)

    def partner(self, i: int) -> int:
        """The token that closes the bracket at ``i``."""
        return self._partners[i]

    def adjoin(self, i: int) -> bool:
        """Whether only white space is between the sign at ``i`` and the next token."""
        sign = self.all[i]
        return not self._text[sign.at + len(sign.text) : self.all[i + 1].at].strip()

    def line(self, position: int) -> int:
        """The line of a place in the script, counted from 1."""
        return self._text.count(b"\n", 0, position) + 1

    def _unreadable(self, position: int) -> UnreadableLuaError:
        return UnreadableLuaError(f"cannot be read in line {self.line(position)}")

    def _read(self, position: int) -> list[Token]:
        text, found, spend = self._text, [], self.budget.spend
        while position < len(text):
            spend()
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._unreadable(position)
            start, position = position, match.end()
            kind = match.lastgroup or ""
            if kind == "comment":
                position = self._behind_comment(position)
            elif match["long"] is not None:
                inside = position
                end, position = self._long_end(position, match["level"])
                value = text[inside:end]
                told = _FIRST_NEWLINE.sub(b"", value, count=1) if value[:1] in (b"\r", b"\n") else value
                found.append(Token("string", told, start, b"\0" not in value))
            elif kind == "string":
                value = match[0][1:-1]
                found.append(Token("string", value, start, b"\\" not in value and b"\0" not in value))
            elif kind != "space":
                found.append(Token(kind, match[0], start))
        found.append(Token("end", b"", len(text)))
        return found

    def _behind_comment(self, position: int) -> int:
        long = _LONG_COMMENT.match(self._text, position)
        if long is not None:
            return self._long_end(long.end(), long[1])[1]
        end = _LINE_END.search(self._text, position)
        return len(self._text) if end is None else end.start()

    def _long_end(self, position: int, level: bytes) -> tuple[int, int]:
        """The ends of the content of a long bracket and of the bracket itself."""
        closing = b"]" + level + b"]"
        end = self._text.find(closing, position)
        if end < 0:
            raise self._unreadable(position)
        return end, end + len(closing)

    def _match_brackets(self) -> None:
        opened: list[int] = []
        for i, token in enumerate(self.all):
            if token.kind != "sign":
                continue
            if token.text in _CLOSES:
                opened.append(i)
            elif token.text in _CLOSING:
                if not opened or _CLOSES[self.all[opened[-1]].text] != token.text:
                    raise self._unreadable(token.at)
                self._partners[opened.pop()] = i
        if opened:
            raise self._unreadable(self.all[opened[-1]].at)
