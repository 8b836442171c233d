"""The functions of a library that only Redis calls, with the keys and arguments of an FCALL.

redis.register_function('f', function(keys, args) … end)
redis.register_function{function_name='f', callback=function(keys, args) … end}
local function g(keys, args) … end      redis.register_function('g', g)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from proxy.rules.scripts.lua_tokens import Tokens

_MODULES = (b"redis", b"server")
_OPENS_BLOCK = (b"function", b"do", b"if", b"repeat")


@dataclass(frozen=True, slots=True)
class Callback:
    """The names of its first two parameters, and the tokens of its body."""

    parameters: tuple[bytes, ...]
    body: range


def callbacks(
    tokens: Tokens, places: Mapping[bytes, Sequence[int]], binds: Callable[[int], bool]
) -> Iterator[Callback]:
    """The callbacks of a text. `places` has the tokens of each name that is no field; `binds` tells whether the name at
    a token is declared or assigned to there."""
    registered = [i for module in _MODULES for i in places.get(module, ()) if _registers(tokens, i)]
    if not registered:
        return
    ends = _ends(tokens)
    given = {found for i in registered if (found := _given(tokens, i + 3)) is not None}
    others = _others(tokens, places, given)
    seen = set[int]()
    for i in sorted(given):
        function = i if tokens[i].is_name(b"function") else _declared(tokens, others, binds, i)
        if function in seen:
            continue
        if function is not None and function in ends:
            seen.add(function)
            opened = function + 1 if tokens[function + 1].is_sign(b"(") else function + 2
            closed = tokens.partner(opened)
            names = tuple(tokens[j].text for j in range(opened + 1, min(closed, opened + 4), 2))
            yield Callback(names, range(closed + 1, ends[function]))


def _registers(tokens: Tokens, i: int) -> bool:
    return tokens[i + 1].is_sign(b".") and tokens[i + 2].is_name(b"register_function")


def _given(tokens: Tokens, i: int) -> int | None:
    """The token of the callback in a registration with arguments that begin at this token."""
    if tokens[i].is_sign(b"("):
        i += 1
    if not tokens[i].is_sign(b"{"):
        return i + 2 if tokens[i].kind == "string" and tokens[i + 1].is_sign(b",") else None
    end = tokens.partner(i)
    i += 1
    while i < end:
        if tokens[i].is_name(b"callback") and tokens[i + 1].is_sign(b"="):
            return i + 2
        i = tokens.partner(i) + 1 if tokens[i].is_sign(b"(", b"[", b"{") else i + 1
    return None


def _others(tokens: Tokens, places: Mapping[bytes, Sequence[int]], given: set[int]) -> Mapping[bytes, Sequence[int]]:
    """For each name that is registered, where else it stands."""
    names = {tokens[i].text for i in given if tokens[i].kind == "name"}
    return {name: [place for place in places.get(name, ()) if place not in given] for name in names}


def _declared(
    tokens: Tokens, others: Mapping[bytes, Sequence[int]], binds: Callable[[int], bool], i: int
) -> int | None:
    """The ``local function`` of the name at this token, if the name is used only for registrations."""
    elsewhere = others.get(tokens[i].text, ())
    if tokens[i].kind != "name" or len(elsewhere) != 1 or not tokens[i + 1].is_sign(b")", b"}", b",", b";"):
        return None
    (at,) = elsewhere
    local = tokens[at - 1].is_name(b"function") and tokens[at - 2].is_name(b"local")
    return at - 1 if local and binds(at) else None


def _ends(tokens: Tokens) -> dict[int, int]:
    """For each ``function`` the ``end`` that closes it; empty if blocks do not match."""
    opened: list[int] = []
    ends: dict[int, int] = {}
    for i, token in enumerate(tokens.all):
        if token.is_name(*_OPENS_BLOCK):
            opened.append(i)
        elif token.is_name(b"end", b"until"):
            if not opened:
                return {}
            start = opened.pop()
            if tokens[start].is_name(b"function"):
                ends[start] = i
    return ends
