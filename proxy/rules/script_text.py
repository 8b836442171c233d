r"""What the text of a Lua script says that it will call.

A script is read as tokens, as Lua 5.1 reads them: comments and strings, long ones too, hide nothing and show nothing. A
command is known if it is called in the one plain way, with its name as a literal:

    redis.call('GET', KEYS[1])      redis.pcall("SET", k, v)      server.call[[PING]]

Whatever else could reach a command makes the script *dynamic*: nobody can tell by its text what it will run. That is
``redis`` or ``server`` in any other place (``local r = redis``, ``redis['call']``), ``redis.call`` that is not called
on the spot (``local c = redis.call``), a name that is put together (``'FLUSH' .. 'ALL'``, ``ARGV[1]``) or written with
escapes, the functions that make code of text or hand out the globals, and any byte that Lua 5.1 has no use for.

The text alone is read: nothing is run, and no name is looked up. What no landmark is (a comment, a string, one of a few
names) is passed over; only behind ``redis`` is read token by token.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

LONGEST = 256 * 1024
"""Bytes of a text that is read at all."""
MOST_PLACES = 2000
"""Places of a text that use redis or the like; more is not written by people."""
MOST_TOKENS = 50_000
"""Tokens of a text that are read behind those."""
_MOST_WORDS = 8
_LONGEST_WORD = 64

_CALLS = (b"call", b"pcall")
_MODULES = (b"redis", b"server")
_STRING = rb"""
    " (?: [^"\\\r\n] | \\ (?: \r\n | \n\r | [\x00-\xff] ) )* "
  | ' (?: [^'\\\r\n] | \\ (?: \r\n | \n\r | [\x00-\xff] ) )* '
"""
_LANDMARK = re.compile(
    rb"""
    (?P<comment> -- )
  | (?P<string> """
    + _STRING
    + rb""" )
  | (?P<long> \[ (?P<level> =* ) \[ )
  | (?P<name> (?<![A-Za-z0-9_])
        (?: redis | server | _ENV | _G | debug | dofile | getfenv | load | loadfile | loadstring | module | package
          | require | setfenv ) (?![A-Za-z0-9_]) )
  | (?P<unreadable> ["'!@$?`|&\\\x00-\x08\x0e-\x1f\x7f-\xff] )
    """,
    re.VERBOSE,
)
_TOKEN = re.compile(
    rb"""
    (?P<space> [ \t\r\n\f\v]+ )
  | (?P<comment> -- )
  | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<number> \.?[0-9][0-9.]* (?: [eE][+-]? )? [A-Za-z0-9_]* )
  | (?P<string> """
    + _STRING
    + rb""" )
  | (?P<long> \[ (?P<level> =* ) \[ )
  | (?P<sign> \.\.\.? | [-+*/%^#=~<>(){}\[\];:,.] )
    """,
    re.VERBOSE,
)
_LONG_COMMENT = re.compile(rb"\[(=*)\[")
_LINE_END = re.compile(rb"[\r\n]")
_FIRST_NEWLINE = re.compile(rb"\r\n|\n\r|\n|\r")
_FIELD = re.compile(rb"(?<![.0-9])\.[ \t\r\n\f\v]*\Z")
_WHOLE_NUMBER = re.compile(rb"[0-9]{1,15}")
_SHEBANG = re.compile(rb"#![lL][uU][aA](?=[ \t\r\n]|$)")
_FARTHEST_DOT = 64


@dataclass(frozen=True, slots=True)
class Call:
    """A command that a script calls: its leading literal arguments, the name first. Unless `complete`, more follow."""

    words: tuple[bytes, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class ScriptCalls:
    """What a text calls, each once. `dynamic` says why that may not be all; it is empty where it is.

    `functions` are the functions that a library registers, in small letters: Redis does not tell them apart.
    """

    calls: tuple[Call, ...] = ()
    dynamic: str = ""
    functions: tuple[bytes, ...] = ()


class _DynamicError(Exception):
    """The text cannot be read any further."""


def read_script(text: bytes) -> ScriptCalls:
    """What a script or a library of functions calls. Never raises: what cannot be read is dynamic."""
    start = 0
    if len(text) > LONGEST:
        return ScriptCalls(dynamic=f"is longer than {LONGEST} bytes, too long to be read")
    if text.startswith(b"#!"):
        if _SHEBANG.match(text) is None:
            return ScriptCalls(dynamic="is written in a language other than Lua")
        start = text.find(b"\n")
        if start < 0:
            return ScriptCalls()
    reading = _Reading(text)
    try:
        reading.read(start)
    except _DynamicError as error:
        return ScriptCalls(dynamic=str(error))
    return ScriptCalls(tuple(reading.calls), reading.dynamic, tuple(reading.functions))


def _behind_comment(text: bytes, position: int) -> int:
    long = _LONG_COMMENT.match(text, position)
    if long is not None:
        return _long_end(text, long.end(), long[1])[1]
    end = _LINE_END.search(text, position)
    return len(text) if end is None else end.start()


def _long_end(text: bytes, position: int, level: bytes) -> tuple[int, int]:
    """Where the inside of a long bracket ends, and where it ends itself."""
    closing = b"]" + level + b"]"
    end = text.find(closing, position)
    if end < 0:
        raise _unreadable(text, position)
    return end, end + len(closing)


def _line(text: bytes, position: int) -> int:
    return text.count(b"\n", 0, position) + 1


def _unreadable(text: bytes, position: int) -> _DynamicError:
    return _DynamicError(f"cannot be read in line {_line(text, position)}")


class _Token(NamedTuple):
    # ``name``, ``number``, ``string`` or ``sign``; of a string the text is what it holds, and ``plain`` says that it
    # has no escapes, and no NUL, behind which Redis may read no further.
    kind: str
    text: bytes
    plain: bool = True


_END = _Token("end", b"")


def _tokens(text: bytes, position: int) -> Iterator[_Token]:
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(text, position)
        kind = match.lastgroup or ""
        position = match.end()
        if kind == "comment":
            position = _behind_comment(text, position)
        elif match["long"] is not None:
            start = position
            end, position = _long_end(text, position, match["level"])
            value = text[start:end]
            told = _FIRST_NEWLINE.sub(b"", value, count=1) if value[:1] in (b"\r", b"\n") else value
            yield _Token("string", told, b"\0" not in value)
        elif kind == "string":
            value = match[0][1:-1]
            yield _Token("string", value, b"\\" not in value and b"\0" not in value)
        elif kind != "space":
            yield _Token(kind, match[0])


class _Window:
    """The tokens from one place on, read as far as they are looked at."""

    def __init__(self, text: bytes, position: int) -> None:
        self._coming = _tokens(text, position)
        self._read: list[_Token] = []

    @property
    def seen(self) -> int:
        return len(self._read)

    def at(self, i: int) -> _Token:
        while len(self._read) <= i:
            self._read.append(next(self._coming, _END))
        return self._read[i]

    def sign(self, i: int, *signs: bytes) -> bool:
        token = self.at(i)
        return token.kind == "sign" and token.text in signs


class _Reading:
    """A text, walked once from landmark to landmark."""

    def __init__(self, text: bytes) -> None:
        self.calls: dict[Call, None] = {}
        self.functions: dict[bytes, None] = {}
        self.dynamic = ""
        self._text = text
        self._places = 0
        self._tokens = 0
        self._here = 0

    def read(self, position: int) -> None:
        text = self._text
        while (match := _LANDMARK.search(text, position)) is not None:
            behind = match.end()
            if match["comment"] is not None:
                behind = _behind_comment(text, behind)
            elif match["long"] is not None:
                behind = _long_end(text, behind, match["level"])[1]
            elif match["unreadable"] is not None:
                raise _unreadable(text, match.start())
            elif match["name"] is not None and not self._is_field(match.start(), position):
                self._read_place(match["name"], match.start())
            position = behind

    def _is_field(self, start: int, code: int) -> bool:
        """Whether a name is that of a field: a dot is before it, and nothing but code since the last landmark."""
        return _FIELD.search(self._text, max(code, start - _FARTHEST_DOT), start) is not None

    def _read_place(self, name: bytes, start: int) -> None:
        self._here = start
        self._places += 1
        if self._places > MOST_PLACES:
            raise _DynamicError(f"uses redis in more than {MOST_PLACES} places")
        if name not in _MODULES:
            self._note(f"uses {name.decode()}")
            return
        window = _Window(self._text, start)
        self._read_member(window, name.decode())
        self._tokens += window.seen
        if self._tokens > MOST_TOKENS:
            raise _DynamicError("is too long to be read")

    def _note(self, what: str) -> None:
        if not self.dynamic:
            self.dynamic = f"{what} in line {_line(self._text, self._here)}"

    def _read_member(self, window: _Window, name: str) -> None:
        member = window.at(2)
        if not window.sign(1, b".") or member.kind != "name":
            self._note(f"uses {name} other than as {name}.call(…)")
        elif member.text in _CALLS:
            self._read_call(window, f"{name}.{member.text.decode()}")
        elif member.text == b"register_function":
            self._read_registration(window)

    def _read_call(self, window: _Window, name: str) -> None:
        i = 3
        if window.at(i).kind == "string":
            self._add(Call((window.at(i).text,), complete=True), name, window.at(i).plain)
            return
        if not window.sign(i, b"("):
            self._note(f"uses {name} without calling it there")
            return
        words: list[bytes] = []
        i += 1
        if window.sign(i, b")"):
            return
        complete = False
        while not complete and len(words) < _MOST_WORDS and (word := _literal(window, i)) is not None:
            words.append(word)
            complete = window.sign(i + 1, b")")
            i += 2
        self._add(Call(tuple(words), complete), name, bool(words))

    def _add(self, call: Call, name: str, literal: bool) -> None:
        if literal:
            self.calls[call] = None
        else:
            self._note(f"chooses at run time what {name} is to run")

    def _read_registration(self, window: _Window) -> None:
        i = 4 if window.sign(3, b"(") else 3
        name = self._read_table(window, i) if window.sign(i, b"{") else _literal(window, i)
        if name is None:
            self._note("registers a function under a name that is no literal")
        else:
            self.functions[name.lower()] = None

    def _read_table(self, window: _Window, i: int) -> bytes | None:
        """The one literal ``function_name`` of the table that begins at this token."""
        depth = 0
        found: list[bytes | None] = []
        while window.at(i) is not _END and self._tokens + i <= MOST_TOKENS:
            depth += window.sign(i, b"{") - window.sign(i, b"}")
            if depth == 0:
                break
            if depth == 1 and window.sign(i, b"[") and window.sign(i - 1, b"{", b",", b";"):
                return None
            if depth == 1 and window.at(i) == _Token("name", b"function_name"):
                value = window.at(i + 2)
                literal = value.kind == "string" and value.plain and window.sign(i + 3, b",", b";", b"}")
                found.append(value.text if literal and window.sign(i + 1, b"=") else None)
            i += 1
        return found[0] if len(found) == 1 else None


def _literal(window: _Window, i: int) -> bytes | None:
    """The argument at this token, if it is one literal and nothing else."""
    token = window.at(i)
    if not window.sign(i + 1, b",", b")") or len(token.text) > _LONGEST_WORD:
        return None
    if token.kind == "string" and token.plain:
        return token.text
    if token.kind == "number" and _WHOLE_NUMBER.fullmatch(token.text):
        return b"%d" % int(token.text)
    return None
