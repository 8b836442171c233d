"""Whether a Lua text keeps to its arguments, if the text alone proves it.

It uses the names of its keys only as arguments of calls, or counts them: they come into no value that it can change,
keep or return. And it neither reads nor changes what scripts share beyond one run, which is how it would meet those of
others: of globals it uses ARGV, its own variables, and those parts of the libraries and of ``redis`` that are named
here, as ``library.function``.

Older engines let a script change globals, libraries and the metatables of strings, for all scripts (CVE-2022-24735,
CVE-2025-46818), and call a script of another client as the global ``f_SHA1``.
"""

import re
from collections.abc import Collection, Iterator

from proxy.rules.scripts.lua_names import Names
from proxy.rules.scripts.lua_tokens import Tokens

_KEYWORDS = frozenset(
    b"and break do else elseif end false for function if in local nil not or repeat return then true until "
    b"while".split()
)
_AN_ARGUMENT = "the argument of a call"
_FUNCTIONS = frozenset(b"assert error ipairs next pairs pcall select tonumber tostring type unpack xpcall".split())
"""Functions of Lua that give a script nothing that it does not have."""
_PARTS: dict[bytes, frozenset[bytes]] = {
    b"bit": frozenset(b"arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex".split()),
    b"cjson": frozenset(b"decode encode null".split()),
    b"cmsgpack": frozenset(b"pack unpack unpack_limit unpack_one".split()),
    b"math": frozenset(
        b"abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max min mod modf pi pow "
        b"rad random sin sinh sqrt tan tanh".split()
    ),
    b"os": frozenset((b"clock",)),
    b"string": frozenset(b"byte char find format gmatch gsub len lower match rep reverse sub upper".split()),
    b"struct": frozenset(b"pack size unpack".split()),
    b"table": frozenset(b"concat foreach foreachi getn insert maxn remove sort".split()),
}
_PARTS_OF_REDIS = frozenset(
    b"LOG_DEBUG LOG_NOTICE LOG_VERBOSE LOG_WARNING REDIS_VERSION REDIS_VERSION_NUM SERVER_NAME VALKEY_VERSION "
    b"VALKEY_VERSION_NUM call error_reply log pcall replicate_commands setresp sha1hex status_reply".split()
)
PARTS = {**_PARTS, b"redis": _PARTS_OF_REDIS, b"server": _PARTS_OF_REDIS}
"""What a text may use of each library; the settings of cjson are those of all scripts."""
SHARED = frozenset(
    b"_VERSION collectgarbage coroutine gcinfo getmetatable newproxy print rawequal rawget rawset setmetatable".split()
)
"""Other globals of Lua: some lead to what scripts share, and scripts need none of them."""
_ARGUMENTS = frozenset((b"ARGV",))
_OF_ENGINE = re.compile(rb"__|f_[0-9a-f]{40}\Z")


class ReachReader:
    """Looks at all names of a text once. `given` are the tokens that are arguments of calls: KEYS, and variables that
    stand for a key."""

    def __init__(self, tokens: Tokens, names: Names, given: Collection[int]) -> None:
        self._tokens = tokens
        self._names = names
        self._given = given
        self._keys = names.names_of_keys()
        self._sources = {key.source for key in self._keys.values()}
        self._declared: dict[bytes, bool] = {}

    def first_fault(self) -> tuple[str, int] | None:
        """What the text does beyond that, and at which token; None if nothing."""
        closed = self._closed_too_often()
        if closed is not None:
            return "closes a block that it has not opened", closed
        for i, in_table in self._variables():
            fault = self._fault(i, in_table=in_table)
            if fault:
                return fault, i
        return None

    def _closed_too_often(self) -> int | None:
        # The ``end`` of the function that Redis makes of the text: what follows would run while the script is loaded,
        # with the KEYS of the script before it.
        depth = 0
        for i, token in enumerate(self._tokens.all):
            if token.is_name(b"function", b"do", b"if", b"repeat"):
                depth += 1
            elif token.is_name(b"end", b"until"):
                depth -= 1
            if depth < 0:
                return i
        return None

    def _variables(self) -> Iterator[tuple[int, bool]]:
        # Each name that is no field and no keyword, and whether it is a field of a table that is written there.
        tables = _Tables(self._tokens)
        for i, token in enumerate(self._tokens.all):
            tables.enter(i)
            if token.kind == "name" and token.text not in _KEYWORDS and not self._names.is_field(i):
                yield i, tables.has_field(i)

    def _fault(self, i: int, *, in_table: bool) -> str:
        name = self._tokens[i].text
        shown = name.decode()
        if name in self._keys:
            return (
                "" if self._is_argument(i, name) else f"uses {self._keys[name].shown} otherwise than as {_AN_ARGUMENT}"
            )
        if in_table:
            return ""
        if name in PARTS:
            return self._fault_of_library(i, shown)
        if name in SHARED or _OF_ENGINE.match(name):
            return f"uses {shown}"
        if name in _FUNCTIONS:
            return f"changes {shown}" if self._changes(i) else ""
        return "" if self._is_declared(name) else f"uses the global variable {shown}"

    def _is_argument(self, i: int, name: bytes) -> bool:
        return i in self._given or i in self._sources or i == self._keys[name].bound or self._names.counts(i)

    def _changes(self, i: int) -> bool:
        return self._names.defines(i) or (not self._names.declares(i) and self._names.assigns(i))

    def _fault_of_library(self, i: int, shown: str) -> str:
        tokens, names = self._tokens, self._names
        part = tokens[i + 2]
        if names.declares(i) or not tokens[i + 1].is_sign(b".") or part.kind != "name":
            return f"uses {shown} other than as {shown}.name"
        if names.assigns(i):
            return f"changes {shown}"
        return "" if part.text in PARTS[tokens[i].text] else f"uses {shown}.{part.text.decode()}"

    def _is_declared(self, name: bytes) -> bool:
        if name in _ARGUMENTS:
            return True
        if name not in self._declared:
            self._declared[name] = self._names.is_declared(name)
        return self._declared[name]


class _Tables:
    """Tells fields of table constructors, ``{field = 1}``, from variables. A table with a function in it has none: in
    the function ``field = 1`` assigns to a variable."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._opened: list[int] = []
        self._with_function = _brackets_around_functions(tokens)

    def enter(self, i: int) -> None:
        """Come to this token, behind all tokens before it."""
        if self._tokens[i].is_sign(b"(", b"[", b"{"):
            self._opened.append(i)
        elif self._tokens[i].is_sign(b")", b"]", b"}"):
            self._opened.pop()

    def has_field(self, i: int) -> bool:
        """Whether the name at this token is a field."""
        tokens = self._tokens
        if not self._opened or not tokens[i + 1].is_sign(b"=") or not tokens[i - 1].is_sign(b"{", b",", b";"):
            return False
        inner = self._opened[-1]
        return tokens[inner].is_sign(b"{") and inner not in self._with_function


def _brackets_around_functions(tokens: Tokens) -> set[int]:
    opened: list[int] = []
    found: set[int] = set()
    for i, token in enumerate(tokens.all):
        if token.is_sign(b"(", b"[", b"{"):
            opened.append(i)
        elif token.is_sign(b")", b"]", b"}"):
            opened.pop()
        elif token.is_name(b"function"):
            for bracket in reversed(opened):
                if bracket in found:
                    break
                found.add(bracket)
    return found
