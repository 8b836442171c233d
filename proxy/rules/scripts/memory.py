"""Known scripts and functions: a script by the SHA1 of its text, a function by its name.

The calls of a text depend on the text alone, so a SHA1 stands for the same calls under every policy and on every Redis.
A function's name stands for the library that was loaded last. Keyrail notes it when Redis has accepted the library, and
forgets it when Redis gets functions that cannot be read. But a text only tells which functions it *may* register, and
other clients of Redis may load libraries. Only Redis knows which library has a function; its answers are kept
separately.
"""

from collections import OrderedDict
from hashlib import sha1
from typing import NamedTuple, TypeAlias

from proxy.rules.scripts.text import ScriptCalls, read_script
from proxy.rules.shared_state import Fact, FactKey, SharedFacts

MOST_REMEMBERED = 500_000
"""The most scripts, functions and words of their calls that are kept in all, about 100 bytes each; the least recently
used ones are forgotten."""

_BYTES_EACH = 100
_MOST_OWNERS = 10_000

ScriptKey: TypeAlias = FactKey
"""``script`` and its SHA1 in hexadecimal, or ``function`` and its name; in lower case."""


class Owner(NamedTuple):
    """The library that has a function, as Redis answered at that moment (seconds since the epoch)."""

    calls: ScriptCalls
    sha: bytes
    told_at: float


class ScriptMemory(SharedFacts):
    """The known scripts and functions of one route."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._left = most
        self._known: OrderedDict[ScriptKey, ScriptCalls] = OrderedDict()
        self._owners: OrderedDict[bytes, Owner] = OrderedDict()

    def read(self, text: bytes) -> ScriptCalls:
        """The calls of a script's text; remembered under its SHA."""
        key = script_key(sha_of(text))
        calls = self.recall(key)
        if calls is None:
            calls = read_script(text)
            self.learn(key, calls)
        return calls

    def recall(self, key: ScriptKey) -> ScriptCalls | None:
        """The calls of a script or function; None if it is unknown."""
        calls = self._known.get(key)
        if calls is not None:
            self._known.move_to_end(key)
        return calls

    def learn(self, key: ScriptKey, fact: Fact) -> None:
        if not isinstance(fact, ScriptCalls):
            return  # the fact is not about a script
        former = self._known.pop(key, None)
        self._left += _weight(former) - _weight(fact)
        self._known[key] = fact
        while self._left < 0 and len(self._known) > 1:
            self._left += _weight(self._known.popitem(last=False)[1])

    def loaded(self, text: bytes) -> None:
        """Note that Redis has accepted a library of functions."""
        self._owners.clear()
        calls = self.read(text)
        for name in calls.functions:
            self.learn(function_key(name), calls)

    def owner(self, function: bytes) -> Owner | None:
        """The library that has a function, by Redis's last answer."""
        return self._owners.get(function.lower())

    def confirm(self, function: bytes, code: bytes, now: float) -> Owner:
        """Note Redis's answer that a library with this code has the function."""
        name, sha = function.lower(), sha_of(code)
        former = self._owners.pop(name, None)
        calls = former.calls if former is not None and former.sha == sha else read_script(code)
        self._owners[name] = owner = Owner(calls, sha, now)
        if len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)
        return owner

    def forget_functions(self) -> None:
        """Forget all functions: Redis has got functions that cannot be read."""
        self._owners.clear()
        for key in [key for key in self._known if key[0] == "function"]:
            self._left += _weight(self._known.pop(key))


def _weight(calls: ScriptCalls | None) -> int:
    if calls is None:
        return 0
    found = (*calls.calls, *calls.chosen)
    words = (word for call in found for word in call.words)
    long = sum(len(word) // _BYTES_EACH for word in words if isinstance(word, bytes))
    return 1 + len(calls.functions) + sum(len(call.words) for call in found) + long


def sha_of(text: bytes) -> bytes:
    """The SHA1 by which Redis names a script."""
    return sha1(text, usedforsecurity=False).hexdigest().encode()


def script_key(sha: bytes) -> ScriptKey:
    """The key of a script by its SHA, which Redis takes in any letter case."""
    return "script", sha.lower()


def function_key(name: bytes) -> ScriptKey:
    """The key of a function; Redis ignores the letter case of its name."""
    return "function", name.lower()
