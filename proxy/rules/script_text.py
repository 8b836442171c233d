r"""What the text of a Lua script says that it will call.

A script is read as tokens, as Lua 5.1 reads them: comments and strings, long ones too, hide nothing and show nothing. A
command is known if it is called in the one plain way, with its name as a literal:

    redis.call('GET', KEYS[1])      redis.pcall("SET", k, v)      server.call[[PING]]

Whatever else could reach a command makes the script *dynamic*: nobody can tell by its text what it will run. That is
``redis`` or ``server`` in any other place (``local r = redis``, ``redis['call']``), ``redis.call`` that is not called
on the spot (``local c = redis.call``), a name that is put together (``'FLUSH' .. 'ALL'``, ``ARGV[1]``) or written with
escapes, the functions that make code of text or hand out the globals, and any byte that Lua 5.1 has no use for.

The text alone is read: nothing is run, and no name is looked up.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

LONGEST = 256 * 1024
"""Bytes of a text that is read at all; reading takes about a second for each two megabytes."""
MOST_CALLS = 1000
"""Different calls of one script; more is not written by people."""
_MOST_WORDS = 8
_LONGEST_WORD = 64

_MODULES = (b"redis", b"server")
_CALLS = (b"call", b"pcall")
_REACH_ANYTHING = frozenset(
    b"_ENV _G debug dofile getfenv load loadfile loadstring module package require setfenv".split()
)
_TOKEN = re.compile(
    rb"""
    (?P<space>   [ \t\r\n\f\v]+ )
  | (?P<comment> -- )
  | (?P<name>    [A-Za-z_][A-Za-z0-9_]* )
  | (?P<number>  \.?[0-9][0-9.]* (?: [eE][+-]? )? [A-Za-z0-9_]* )
  | (?P<string>  " (?: [^"\\\r\n] | \\ (?: \r\n | \n\r | [\x00-\xff] ) )* "
               | ' (?: [^'\\\r\n] | \\ (?: \r\n | \n\r | [\x00-\xff] ) )* ' )
  | (?P<long>    \[ (?P<level> =* ) \[ )
  | (?P<sign>    \.\.\.? | [-+*/%^#=~<>(){}\[\];:,.] )
    """,
    re.VERBOSE,
)
_LONG_COMMENT = re.compile(rb"\[(=*)\[")
_LINE_END = re.compile(rb"[\r\n]")
_FIRST_NEWLINE = re.compile(rb"\r\n|\n\r|\n|\r")
_WHOLE_NUMBER = re.compile(rb"[0-9]{1,15}")
_SHEBANG = re.compile(rb"#![lL][uU][aA](?=[ \t\r\n]|$)")


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


class _Token(NamedTuple):
    # ``name``, ``number``, ``string`` or ``sign``; of a string the text is what it holds, and ``plain`` says that it
    # has no escapes.
    kind: str
    text: bytes
    line: int
    plain: bool = True


class _UnreadableError(Exception):
    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


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
    try:
        tokens = list(_tokens(text, start))
    except _UnreadableError as error:
        return ScriptCalls(dynamic=f"cannot be read in line {error.line}")
    return _Reading(tokens).read()


def _tokens(text: bytes, position: int) -> Iterator[_Token]:
    line = 1
    counted = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        line += text.count(b"\n", counted, position)
        counted = position
        if match is None:
            raise _UnreadableError(line)
        kind = match.lastgroup or ""
        position = match.end()
        if kind == "comment":
            position = _comment_end(text, position, line)
        elif match["long"] is not None:
            value, position = _long(text, position, match["level"], line)
            yield _Token("string", _FIRST_NEWLINE.sub(b"", value, count=1) if value[:1] in b"\r\n" else value, line)
        elif kind == "string":
            value = match["string"][1:-1]
            yield _Token("string", value, line, b"\\" not in value)
        elif kind != "space":
            yield _Token(kind, match[0], line)


def _comment_end(text: bytes, position: int, line: int) -> int:
    long = _LONG_COMMENT.match(text, position)
    if long is not None:
        return _long(text, long.end(), long[1], line)[1]
    end = _LINE_END.search(text, position)
    return len(text) if end is None else end.start()


def _long(text: bytes, position: int, level: bytes, line: int) -> tuple[bytes, int]:
    closing = b"]" + level + b"]"
    end = text.find(closing, position)
    if end < 0:
        raise _UnreadableError(line)
    return text[position:end], end + len(closing)


_END = _Token("end", b"", 0)


class _Reading:
    """The tokens of a text, walked once."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._calls: dict[Call, None] = {}
        self._functions: dict[bytes, None] = {}
        self._dynamic = ""

    def read(self) -> ScriptCalls:
        for i, token in enumerate(self._tokens):
            if token.kind != "name" or self._is(i - 1, b"."):
                continue
            if token.text in _MODULES:
                self._read_member(i)
            elif token.text in _REACH_ANYTHING:
                self._note(token, f"uses {token.text.decode()}")
        if len(self._calls) > MOST_CALLS:
            return ScriptCalls(dynamic=f"makes more than {MOST_CALLS} different calls")
        return ScriptCalls(tuple(self._calls), self._dynamic, tuple(self._functions))

    def _at(self, i: int) -> _Token:
        return self._tokens[i] if 0 <= i < len(self._tokens) else _END

    def _is(self, i: int, *signs: bytes) -> bool:
        token = self._at(i)
        return token.kind == "sign" and token.text in signs

    def _note(self, token: _Token, what: str) -> None:
        if not self._dynamic:
            self._dynamic = f"{what} in line {token.line}"

    def _read_member(self, i: int) -> None:
        module, member = self._at(i), self._at(i + 2)
        name = module.text.decode()
        if not self._is(i + 1, b".") or member.kind != "name":
            self._note(module, f"uses {name} other than as {name}.call(…)")
        elif member.text in _CALLS:
            self._read_call(i + 3, f"{name}.{member.text.decode()}", module)
        elif member.text == b"register_function":
            self._read_registration(i + 3, module)

    def _read_call(self, i: int, name: str, at: _Token) -> None:
        if self._at(i).kind == "string":
            self._add(Call((self._at(i).text,), complete=True), name, at, self._at(i).plain)
            return
        if not self._is(i, b"("):
            self._note(at, f"uses {name} without calling it there")
            return
        words: list[bytes] = []
        i += 1
        if self._is(i, b")"):
            return
        complete = False
        while not complete and len(words) < _MOST_WORDS and (word := self._literal(i)) is not None:
            words.append(word)
            complete = self._is(i + 1, b")")
            i += 2
        self._add(Call(tuple(words), complete), name, at, bool(words))

    def _literal(self, i: int) -> bytes | None:
        """The argument at this token, if it is one literal and nothing else."""
        token = self._at(i)
        if not self._is(i + 1, b",", b")") or len(token.text) > _LONGEST_WORD:
            return None
        if token.kind == "string" and token.plain:
            return token.text
        if token.kind == "number" and _WHOLE_NUMBER.fullmatch(token.text):
            return b"%d" % int(token.text)
        return None

    def _add(self, call: Call, name: str, at: _Token, literal: bool) -> None:
        if literal:
            self._calls[call] = None
        else:
            self._note(at, f"chooses at run time what {name} is to run")

    def _read_registration(self, i: int, at: _Token) -> None:
        if self._is(i, b"("):
            i += 1
        name = self._field(i) if self._is(i, b"{") else self._literal(i)
        if name is None:
            self._note(at, "registers a function under a name that is no literal")
        else:
            self._functions[name.lower()] = None

    def _field(self, i: int) -> bytes | None:
        """The one literal ``function_name`` of the table that begins at this token."""
        depth = 0
        found: list[bytes | None] = []
        while i < len(self._tokens):
            depth += self._is(i, b"{") - self._is(i, b"}")
            if depth == 0:
                break
            if depth == 1 and self._is(i, b"[") and self._is(i - 1, b"{", b",", b";"):
                return None
            if depth == 1 and self._at(i).kind == "name" and self._at(i).text == b"function_name":
                value = self._at(i + 2)
                literal = value.kind == "string" and value.plain and self._is(i + 3, b",", b";", b"}")
                found.append(value.text if literal and self._is(i + 1, b"=") else None)
            i += 1
        return found[0] if len(found) == 1 else None
