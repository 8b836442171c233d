"""Calls whose keys are elements of KEYS, each at the place of a key, whatever the script is run with."""

from collections.abc import Collection, Sequence

from proxy.commands.spec import Spec
from proxy.commands.table import Table
from proxy.rules.scripts.calls import places_of
from proxy.rules.scripts.text import EVERY, ScriptCall, Word

_SPREADS = range(1, 6)
"""Numbers of keys with which ``unpack(KEYS)`` is tried: any further ones stand as these do."""


def fault_of_keys(table: Table, spec: Spec, call: ScriptCall) -> str:
    """What is wrong with the keys of a call; empty if all are elements of KEYS, and these stand nowhere else."""
    words, complete = call.words, call.complete
    if _is_every_key(words[-1]):
        return _fault_of_every(table, spec, words)
    if _is_every(words[-1]):
        words, complete = words[:-1], False  # unpack(ARGV) stands for any number of arguments
    known = [word if isinstance(word, bytes) else b"" for word in words]
    places, told = places_of(table, spec, words, known, complete)
    if not told:
        return "with arguments of which Keyrail cannot tell which are keys"
    return _fault_of_places({place for place, _ in places}, words)


def fault_of_channel(call: ScriptCall) -> str:
    """The same of a call with a channel, which is its first argument, and gets the prefix as an element of KEYS."""
    words = call.words
    if len(words) == 1 or _is_every_key(words[-1]):
        return "with a channel that is not an element of KEYS"
    return _fault_of_places((1,), words)


def _fault_of_places(places: Collection[int], words: Sequence[Word]) -> str:
    for place, word in enumerate(words):
        given = not isinstance(word, bytes) and word.table == "KEYS"
        if place in places and not given:
            return "with a key that is not an element of KEYS"
        if given and place not in places:
            return "with an element of KEYS that is not a key there"
    return ""


def _is_every(word: Word) -> bool:
    return not isinstance(word, bytes) and word.index == EVERY


def _is_every_key(word: Word) -> bool:
    return not isinstance(word, bytes) and word.table == "KEYS" and word.index == EVERY


def _fault_of_every(table: Table, spec: Spec, words: Sequence[Word]) -> str:
    """``unpack(KEYS)`` stands for any number of keys, so all arguments from there on must be keys."""
    *fixed, every = words
    known = [word if isinstance(word, bytes) else b"" for word in fixed]
    for number in _SPREADS:
        places = {place for place, _ in table.keys_of(spec, [*known, *[b""] * number]) or ()}
        fault = _fault_of_places(places, [*fixed, *[every] * number])
        if fault:
            return fault
    return ""
