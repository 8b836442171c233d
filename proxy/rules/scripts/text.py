r"""The calls in the text of a Lua script, and their arguments.

Keyrail reads the text and runs nothing. A called command is known if the call has this form, with the name as a
literal:

    redis.call('GET', KEYS[1])      redis.pcall("SET", k, v)      server.call[[PING]]

Arguments are known if they are literals, elements of KEYS and ARGV, or local variables that stand for one of these
(``lua_names``). Every other argument is unknown. Behind an argument that may stand for several values (``unpack(t)``,
``...``, a call) the number of arguments is unknown, too.

Any other way to call a command makes the script *dynamic*: its text does not tell what it will run. These are ``redis``
or ``server`` in any other place (``local r = redis``, ``redis['call']``), ``redis.call`` without a call (``local c =
redis.call``), a computed name (``'FLUSH' .. 'ALL'``, ``ARGV[1]``) or one with escapes, functions that run text as code
or return the globals, and any byte that is not valid in Lua 5.1.

A name that is an element of ARGV (``redis.call(ARGV[4], KEYS[2])``, as Redisson releases its locks) is not told by the
text, but by the arguments of each run.
"""

import re
from dataclasses import dataclass

from proxy.rules.scripts.lua_names import EVERY, UNKNOWN, Names, Parameter, Word
from proxy.rules.scripts.lua_reach import ReachReader
from proxy.rules.scripts.lua_tokens import MOST_STEPS, Budget, Tokens, UnreadableLuaError
from proxy.rules.shared_state import Fact

__all__ = ["EVERY", "LONGEST_NAME", "UNKNOWN", "Parameter", "ScriptCall", "ScriptCalls", "Word", "read_script"]

LONGEST = 256 * 1024
"""The most bytes of a text that is read."""
MOST_PLACES = 500
"""The most places of a text that use redis or server, since each run judges all calls; people write fewer."""
MOST_SPREAD = 16
"""The most calls with all of KEYS or ARGV, since each run judges them with all its keys; people write fewer."""
LONGEST_NAME = 64
"""The most bytes of the name of a command or function."""

_CALLS = (b"call", b"pcall")
_MODULES = (b"redis", b"server")
_HAND_OUT_MORE = frozenset(
    b"_ENV _G debug dofile getfenv load loadfile loadstring module package require setfenv".split()
)
"""Names of Lua with which a text reaches code or globals that it does not name."""
_SHEBANG = re.compile(rb"#![lL][uU][aA](?=[ \t\r\n]|$)")


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A command that a script calls, its name first. Unless `complete`, more arguments may follow."""

    words: tuple[Word, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class ScriptCalls(Fact):
    """The calls of a text, each once. `dynamic` says why these may not be all calls; empty if they are.

    `functions` are the functions that a library may register, in lower case, since Redis ignores the letter case.
    `chosen` are the calls whose name is an argument of the run, and `still_dynamic` is why there may be others than
    `calls` and these. `reaches` is how the text may use names of keys otherwise than as arguments of its calls, or what
    it shares with other scripts; empty if it does not.
    """

    calls: tuple[ScriptCall, ...] = ()
    dynamic: str = ""
    functions: tuple[bytes, ...] = ()
    chosen: tuple[ScriptCall, ...] = ()
    still_dynamic: str = ""
    reaches: str = ""


def read_script(text: bytes, most: int = MOST_STEPS) -> ScriptCalls:
    """The calls of a script or a library of functions. Never raises: a text that cannot be read, or only in more steps
    than `most`, is dynamic."""
    start = 0
    if len(text) > LONGEST:
        return _unread(f"is longer than {LONGEST} bytes, too long to be read")
    if text.startswith(b"#!"):
        if _SHEBANG.match(text) is None:
            return _unread("is written in a language other than Lua")
        start = text.find(b"\n")
        if start < 0:
            return ScriptCalls()
    try:
        reading = _ScriptReader(Tokens(text, start, Budget(most)))
    except UnreadableLuaError as error:
        return _unread(str(error))
    return ScriptCalls(
        tuple(reading.calls),
        reading.dynamic or reading.chooses,
        tuple(reading.functions),
        tuple(reading.chosen),
        reading.dynamic,
        reading.reaches,
    )


def _unread(why: str) -> ScriptCalls:
    return ScriptCalls(dynamic=why, still_dynamic=why, reaches=why)


class _ScriptReader:
    """Reads a text once, from name to name. Raises UnreadableLuaError."""

    def __init__(self, tokens: Tokens) -> None:
        self.calls: dict[ScriptCall, None] = {}
        self.functions: dict[bytes, None] = {}
        self.dynamic = ""
        self.chosen: dict[ScriptCall, None] = {}
        self.chooses = ""
        self._tokens = tokens
        self._names = Names(tokens)
        self._here = 0
        self._spread = 0
        self._keys_given: set[int] = set()
        places = 0
        for i, token in enumerate(tokens.all):
            if token.kind != "name" or self._names.is_field(i):
                continue
            self._here = i
            if token.text in _HAND_OUT_MORE:
                self._note(f"uses {token.text.decode()}")
            elif token.text in _MODULES:
                self._read_member(i, token.text.decode())
                places += 1
            if places > MOST_PLACES:
                raise UnreadableLuaError(f"uses redis in more than {MOST_PLACES} places")
        self.reaches = self._read_reach()

    def _read_reach(self) -> str:
        fault = ReachReader(self._tokens, self._names, self._keys_given).first_fault()
        if fault is None:
            return ""
        what, self._here = fault
        return self._placed(what)

    def _note(self, what: str) -> None:
        self.dynamic = self.dynamic or self._placed(what)

    def _placed(self, what: str) -> str:
        return f"{what} in line {self._tokens.line(self._tokens[self._here].at)}"

    def _read_member(self, i: int, name: str) -> None:
        tokens, member = self._tokens, self._tokens[i + 2]
        if not tokens[i + 1].is_sign(b".") or member.kind != "name":
            self._note(f"uses {name} other than as {name}.call(…)")
        elif member.text in _CALLS:
            self._read_call(i + 3, f"{name}.{member.text.decode()}")
        elif member.text == b"register_function":
            self._read_registration(i + 3)
        elif self._names.assigned_behind(self._names.behind_suffixes(i + 3)):
            self._note(f"changes {name}")

    def _read_call(self, i: int, name: str) -> None:
        tokens = self._tokens
        if tokens[i].kind == "string":
            self._add(ScriptCall((self._names.value(i, i + 1),), complete=True), name)
        elif not tokens[i].is_sign(b"("):
            self._note(f"uses {name} without calling it there")
        elif tokens.partner(i) > i + 1:
            self._add(self._arguments(i + 1, tokens.partner(i)), name)

    def _arguments(self, start: int, end: int) -> ScriptCall:
        """The tokens between the brackets of a call."""
        tokens = self._tokens
        words: list[Word] = []
        i = start
        while i < end:
            token = tokens[i]
            if token.is_name(b"function"):
                return ScriptCall(tuple(words), complete=False)  # no command takes a function
            if token.is_sign(b","):
                words.append(self._argument(start, i))
                start = i + 1
            i = tokens.partner(i) + 1 if token.is_sign(b"(", b"[", b"{") else i + 1
        every = self._names.every(start, end)
        if every is None and self._may_be_several(start, end):
            return ScriptCall(tuple(words), complete=False)
        if every is None:
            return ScriptCall((*words, self._argument(start, end)), complete=True)
        if every.table == "KEYS":
            self._keys_given.add(start + 2)
        return ScriptCall((*words, every), complete=True)

    def _argument(self, start: int, end: int) -> Word:
        word = self._names.value(start, end)
        if isinstance(word, Parameter) and word.table == "KEYS":
            self._keys_given.add(start)
        return word

    def _may_be_several(self, start: int, end: int) -> bool:
        """Whether an expression may stand for any number of values, as a call does."""
        last, before = self._tokens[end - 1], self._tokens[end - 2]
        if end - start == 1 or last.kind != "string":
            return last.is_sign(b"...", b")", b"}")
        return before.kind != "sign" or before.is_sign(b")", b"]", b"}")  # f'x' is a call, and so is t[1]'x'

    def _add(self, call: ScriptCall, name: str) -> None:
        first = call.words[0] if call.words else UNKNOWN
        why = f"chooses at run time the command that {name} runs"
        of_run = isinstance(first, Parameter) and first.table == "ARGV" and first.index > 0
        known = self.chosen if of_run else self.calls
        if of_run:
            self.chooses = self.chooses or self._placed(why)
        elif not isinstance(first, bytes) or len(first) > LONGEST_NAME:
            self._note(why)
            return
        if call not in known:
            known[call] = None
            self._spread += isinstance(call.words[-1], Parameter) and call.words[-1].index == EVERY
            if self._spread > MOST_SPREAD:
                raise UnreadableLuaError(f"gives all its keys or arguments to more than {MOST_SPREAD} calls")

    def _read_registration(self, i: int) -> None:
        if self._tokens[i].is_sign(b"("):
            i += 1
        name = self._read_table(i) if self._tokens[i].is_sign(b"{") else self._literal_before(i, b",", b")")
        if name is None:
            self._note("registers a function under a name that is no literal")
        else:
            self.functions[name.lower()] = None

    def _literal_before(self, i: int, *signs: bytes) -> bytes | None:
        token = self._tokens[i]
        literal = token.kind == "string" and token.plain and self._tokens[i + 1].is_sign(*signs)
        return token.text if literal and len(token.text) <= LONGEST_NAME else None

    def _read_table(self, i: int) -> bytes | None:
        """The one literal ``function_name`` of the table that begins at this token."""
        tokens, end = self._tokens, self._tokens.partner(i)
        found: list[bytes | None] = []
        i += 1
        while i < end:
            if tokens[i].is_sign(b"[") and tokens[i - 1].is_sign(b"{", b",", b";"):
                return None
            if tokens[i].is_name(b"function_name"):
                found.append(self._literal_before(i + 2, b",", b";", b"}") if tokens[i + 1].is_sign(b"=") else None)
            i = tokens.partner(i) + 1 if tokens[i].is_sign(b"(", b"[", b"{") else i + 1
        return found[0] if len(found) == 1 else None
