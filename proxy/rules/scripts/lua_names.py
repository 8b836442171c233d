"""The meaning of names in a Lua text, if the text alone proves it.

``KEYS`` and ``ARGV`` are the script's keys and arguments if the text only reads them: ``KEYS[1]``, ``#KEYS``,
``unpack(KEYS)``, ``for _, key in ipairs(KEYS)``. After any other use (assignment, shadowing, passing to a function) its
elements are unknown.

In a library of functions they are the parameters of a function that only Redis calls: a function in the registration
itself, or a ``local function`` with a name that is used only to register it.

A local variable stands for its value if its name is bound once in the whole text and never assigned to, by ``local key
= KEYS[1]`` or ``for _, key in ipairs(KEYS) do``. A use outside of its scope would be a global variable, and Redis has
none of that name. Two names are never known, since Lua 5.1 binds them implicitly: ``self`` in every method, and ``arg``
in functions with ``...`` (``LUA_COMPAT_VARARG`` in ``lparser.c``).

What has been found about a token or a name is kept, so the work is linear in the text; each look spends of its budget.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from proxy.rules.scripts.lua_callbacks import callbacks
from proxy.rules.scripts.lua_tokens import Token, Tokens


@dataclass(frozen=True, slots=True)
class Parameter:
    """An element of ``KEYS`` or ``ARGV``, counted from 1; without a table, the value is unknown.

    Index 0 is an unknown element; EVERY is all elements, one after another.
    """

    table: Literal["KEYS", "ARGV", ""]
    index: int


EVERY = -1
UNKNOWN = Parameter("", 0)
"""A value that the text does not tell."""

Word: TypeAlias = bytes | Parameter
"""An argument of a call."""

_TABLES: dict[bytes, Literal["KEYS", "ARGV"]] = {b"KEYS": "KEYS", b"ARGV": "ARGV"}
_WHOLE_NUMBERS = frozenset(b"0123456789")
_MOST_DIGITS = 15
_BOUND_BY_LUA = (b"_VERSION", b"self", b"arg")
"""Names with a value that the text does not bind."""
_CONTINUES = (*b"( { [ . : .. + - * / % ^ == ~= < > <= >=".split(),)
"""Signs after which an expression continues."""


class _Value(NamedTuple):
    """What a variable stands for, and the token at which that begins."""

    word: Word
    start: int


class KeyName(NamedTuple):
    """A name of keys, as errors show it; for a variable, the tokens at which it is bound and at which KEYS stands
    there."""

    shown: str
    bound: int = -1
    source: int = -1


class Names:
    """The names of one text."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._spend = tokens.budget.spend
        self._places: dict[bytes, list[int]] = {}
        self._behind_suffixes: dict[int, int] = {}
        self._assigns: dict[int, bool] = {}
        self._functions: dict[int, bool] = {}
        self._first_of_list: dict[int, int] = {}
        self._bound: dict[bytes, tuple[int, ...]] = {}
        self._values: dict[int, Sequence[_Value]] = {}
        for i, token in enumerate(tokens.all):
            if token.kind == "name":
                self._first_of_list[i] = self._list_start(i)
                if not self.is_field(i):
                    self._places.setdefault(token.text, []).append(i)
        self._tables: dict[int, Literal["KEYS", "ARGV"]] = {}
        for table, name in _TABLES.items():
            self._learn_table(self._places.get(table, ()), name)
        for function in callbacks(tokens, self._places, self._binds):
            for parameter, name in zip(function.parameters, _TABLES.values(), strict=False):
                if parameter not in _BOUND_BY_LUA:
                    self._learn_table(_within(self._places.get(parameter, ()), function.body), name)

    def is_field(self, i: int) -> bool:
        """Whether the name at this token is a field, ``x.name``; a name behind a comment counts as a variable."""
        dot = self._tokens[i - 1]
        return dot.is_sign(b".") and self._tokens.adjoin(i - 1)

    def value(self, start: int, end: int) -> Word:
        """The value of the expression of these tokens: a literal, an element of KEYS or ARGV, or UNKNOWN."""
        tokens, size = self._tokens, end - start
        first = tokens[start]
        if size == 1:
            return self._constant(first.text) if first.kind == "name" else _literal(first)
        if size == 2 and first.is_sign(b"-"):
            number = _literal(tokens[start + 1]) if tokens[start + 1].kind == "number" else UNKNOWN
            return b"-" + number if isinstance(number, bytes) and number != b"0" else UNKNOWN
        table = self._tables.get(start)
        if table is None or not tokens[start + 1].is_sign(b"["):
            return UNKNOWN
        if tokens.partner(start + 1) != end - 1:
            return UNKNOWN
        index = _literal(tokens[start + 2]) if size == 4 and tokens[start + 2].kind == "number" else UNKNOWN
        return Parameter(table, int(index) if isinstance(index, bytes) else 0)

    def every(self, start: int, end: int) -> Parameter | None:
        """All of KEYS or ARGV, if the tokens are ``unpack(KEYS)``."""
        table = self._tables.get(start + 2)
        unpacks = end - start == 4 and self._calls(start + 1, b"unpack")
        return None if table is None or not unpacks else Parameter(table, EVERY)

    def names_of_keys(self) -> dict[bytes, "KeyName"]:
        """KEYS, and the variables that stand for an element of it."""
        found = {name: KeyName(table) for name, table in _TABLES.items() if table == "KEYS"}
        for name in self._places:
            meaning = self._meaning(name)
            if meaning is not None and isinstance(meaning.word, Parameter) and meaning.word.table == "KEYS":
                shown = f"{name.decode()}, which is an element of KEYS,"
                found[name] = KeyName(shown, self._bound_at(name)[0], meaning.start)
        return found

    def counts(self, i: int) -> bool:
        """Whether KEYS at this token is only counted: ``#KEYS``, ``for i in ipairs(KEYS)``."""
        if i not in self._tables or self._tokens[i + 1].is_sign(b"["):
            return False
        return self._tokens[i - 1].is_sign(b"#") or (self._loops(i) and self._tokens[i - 5].is_name(b"for"))

    def is_declared(self, name: bytes) -> bool:
        """Whether the text has a local variable or a parameter of this name."""
        return any(self.declares(i) and not self.defines(i) for i in self._places.get(name, ()))

    def defines(self, i: int) -> bool:
        """Whether the name at ``i`` is that of a function which is not ``local``: ``function name()`` assigns to it."""
        return self._tokens[i - 1].is_name(b"function") and not self._tokens[i - 2].is_name(b"local")

    def declares(self, i: int) -> bool:
        """Whether the name at ``i`` is declared here, as a local variable, a parameter or a function."""
        tokens, first = self._tokens, self._first_of_list[i]
        before = tokens[first - 1]
        return before.is_name(b"local", b"for", b"function") or (before.is_sign(b"(") and self._is_function(first - 2))

    def assigns(self, i: int) -> bool:
        """Whether what begins with the name at ``i``, which declares nothing, is assigned to."""
        return self.assigned_behind(self.behind_suffixes(i + 1))

    def assigned_behind(self, i: int) -> bool:
        """Whether the expression that ends before token ``i`` is assigned to: ``=`` follows, perhaps after further
        targets."""
        tokens, passed = self._tokens, []
        while i not in self._assigns:
            self._spend()
            passed.append(i)
            if tokens[i].is_sign(b"="):
                self._assigns[i] = True
            elif tokens[i].is_sign(b",") and (tokens[i + 1].kind == "name" or tokens[i + 1].is_sign(b"(")):
                after = i + 2 if tokens[i + 1].kind == "name" else tokens.partner(i + 1) + 1
                i = self.behind_suffixes(after)
                continue
            else:
                self._assigns[i] = False
            break
        found = self._assigns[i]
        self._assigns.update(dict.fromkeys(passed, found))
        return found

    def behind_suffixes(self, i: int) -> int:
        """Behind all indexes, fields and calls that begin at token ``i``."""
        tokens, passed, known = self._tokens, [], self._behind_suffixes
        while i not in known:
            self._spend()
            passed.append(i)
            if tokens[i].is_sign(b"[", b"(", b"{"):
                i = tokens.partner(i) + 1
            elif tokens[i].is_sign(b".", b":") and tokens[i + 1].kind == "name":
                i += 2
            elif tokens[i].kind == "string":
                i += 1
            else:
                known[i] = i
        end = known[i]
        known.update(dict.fromkeys(passed, end))
        return end

    # How names are bound

    def _list_start(self, i: int) -> int:
        """Where the list of names that ends at ``i`` begins: ``a, b, c``."""
        if self._tokens[i - 1].is_sign(b",") and i >= 2 and (i - 2) in self._first_of_list:
            return self._first_of_list[i - 2]
        return i

    def _binds(self, i: int) -> bool:
        """Whether the name at ``i`` is declared here, or assigned to."""
        return self.declares(i) or self.assigns(i)

    def _bound_at(self, name: bytes) -> tuple[int, ...]:
        """Where a name is declared or assigned to."""
        if name not in self._bound:
            self._bound[name] = tuple(filter(self._binds, self._places.get(name, ())))
        return self._bound[name]

    def _is_function(self, i: int) -> bool:
        """Whether the tokens that end at ``i`` are ``function``, with or without a name."""
        if i not in self._functions:
            self._functions[i] = self._find_function(i)
        return self._functions[i]

    def _find_function(self, i: int) -> bool:
        tokens = self._tokens
        while i > 0 and tokens[i].kind == "name" and tokens[i - 1].is_sign(b".", b":"):
            self._spend()
            i -= 2
        if i < 0 or tokens[i].kind != "name":
            return False
        return tokens[i].text == b"function" or tokens[i - 1].is_name(b"function")

    def _calls(self, i: int, *functions: bytes) -> bool:
        """Whether the bracket at ``i`` belongs to a call of one of these functions of Lua."""
        function = self._tokens[i - 1]
        return (
            self._tokens[i].is_sign(b"(")
            and function.kind == "name"
            and function.text in functions
            and not self._tokens[i - 2].is_sign(b".", b":")
            and not self._bound_at(function.text)
        )

    # KEYS and ARGV

    def _learn_table(self, places: Sequence[int], table: Literal["KEYS", "ARGV"]) -> None:
        """Note KEYS or ARGV at these places, if all of them only read it."""
        self._spend(len(places))
        if all(self._reads(i) for i in places):
            self._tables.update(dict.fromkeys(places, table))

    def _reads(self, i: int) -> bool:
        """Whether KEYS or ARGV at this token is only read."""
        tokens = self._tokens
        if tokens[i + 1].is_sign(b"["):
            return not self.assigned_behind(self.behind_suffixes(i + 1))
        if tokens[i - 1].is_sign(b"#"):
            return not tokens[i + 1].is_sign(b".", b":", b"(", b"{")
        if not tokens[i + 1].is_sign(b")", b",") or i < 2:
            return False
        return self._calls(i - 1, b"unpack") or self._loops(i)

    def _loops(self, i: int) -> bool:
        """Whether a loop is over KEYS or ARGV at this token."""
        tokens = self._tokens
        return tokens[i - 3].is_name(b"in") and tokens[i + 1].is_sign(b")") and self._calls(i - 1, b"ipairs", b"pairs")

    # Variables

    def _constant(self, name: bytes) -> Word:
        meaning = self._meaning(name)
        return UNKNOWN if meaning is None else meaning.word

    def _meaning(self, name: bytes) -> "_Value | None":
        """What a variable stands for in all of the text; None if that is not told."""
        bound = self._bound_at(name)
        if len(bound) != 1 or name in _TABLES or name in _BOUND_BY_LUA:
            return None
        (at,) = bound
        first = self._first_of_list[at]
        if self._tokens[first - 1].is_name(b"for"):
            return self._element(first) if at == first + 2 else None
        if not self._tokens[first - 1].is_name(b"local"):
            return None
        if first not in self._values:
            self._values[first] = self._values_of(first)
        place = (at - first) // 2
        return self._values[first][place] if place < len(self._values[first]) else None

    def _element(self, first: int) -> "_Value | None":
        """An element of KEYS or ARGV in ``for _, element in ipairs(KEYS) do``, where the names begin at ``first``."""
        i = first + 6
        table = self._tables.get(i)
        loops = table is not None and self._tokens[i + 2].is_name(b"do") and self._loops(i)
        return _Value(Parameter(table, 0), i) if table is not None and loops else None

    def _values_of(self, first: int) -> Sequence["_Value"]:
        """The values of the local variables in a list that begins here, as far as they are simple."""
        tokens, end = self._tokens, first
        while tokens[end + 1].is_sign(b","):
            self._spend()
            end += 2
        if not tokens[end + 1].is_sign(b"="):
            return ()
        return self._simple_values(end + 2)

    def _simple_values(self, i: int) -> Sequence["_Value"]:
        """The values of a list of expressions that begins at ``i``, up to the first that is not simple."""
        tokens = self._tokens
        values: list[_Value] = []
        while True:
            self._spend()
            end = self._behind_simple(i)
            # A name is not looked up in turn: scripts do not need it, and a chain of names could be long.
            named = tokens[i].kind == "name" and end == i + 1
            values.append(_Value(UNKNOWN if named else self.value(i, end), i))
            if not tokens[end].is_sign(b","):
                break
            i = end + 1
        follows = tokens[end]
        goes_on = follows.is_sign(*_CONTINUES) or follows.is_name(b"and", b"or") or follows.kind == "string"
        return values[:-1] if goes_on else values

    def _behind_simple(self, i: int) -> int:
        tokens = self._tokens
        if tokens[i].is_sign(b"-"):
            return i + 2
        if i in self._tables and tokens[i + 1].is_sign(b"["):
            return tokens.partner(i + 1) + 1
        return i + 1


def _literal(token: Token) -> Word:
    if token.kind == "string" and token.plain:
        return token.text
    if token.kind == "number" and len(token.text) <= _MOST_DIGITS and _WHOLE_NUMBERS.issuperset(token.text):
        return b"%d" % int(token.text)
    return UNKNOWN


def _within(places: Sequence[int], body: range) -> Sequence[int]:
    return places[bisect_left(places, body.start) : bisect_left(places, body.stop)]
