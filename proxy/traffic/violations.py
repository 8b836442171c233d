"""One violation as one line of JSON. Bytes of a client cannot break the line, and the line never contains a value.

    {"time": "2026-11-21T20:12:03.123Z", "route": "default", "rule": "no-keyspace-walks", "mode": "warn",
     "what": "refused", "app": "reports", "command": "KEYS", "shape": "user:{int}", "key": "user:{int}#9f86d081",
     "user": "default", "client_name": "spark-7", "library": "redis-py 8.1.0", "address": "10.0.0.7:51234"}

``what``: ``refused``, ``skipped`` (the rule could not be applied; ``why`` says why), ``noticed`` (in a reply),
``error`` (the rule itself failed; ``why`` says where). In other modes than ``enforce`` it is what would have happened;
then it may also be ``rewritten``, ``answered``, ``accompanied`` or ``followed``. A command without keys has neither
``shape`` nor ``key``. For a command with several keys they are about the first, and ``keys`` is the number of keys.
Of a tenant's client, ``key`` is the name in Redis, and ``tenant`` has the name that it knows (``{"app", "key"}``), of
which ``shape`` is.

A line has at most 4096 bytes, so that it reaches a file or a pipe in one piece.
"""

import json
from collections.abc import Mapping
from typing import TypeAlias

from proxy.traffic.labels import moment

MOST_BYTES = 4096
_LONGEST_TEXT = 64
_LONGEST_SHOWN = 300
"""The most characters of one field: keys and reasons may be longer than names."""

_LONGER = frozenset({"shape", "key", "why"})

Field: TypeAlias = str | int | Mapping[str, str]


def violation_line(when: float, fields: Mapping[str, Field]) -> bytes:
    """The line, its end included; empty fields are left out."""
    kept: dict[str, Field] = {"time": str(moment(when))}
    kept |= {name: _cut(name, value) for name, value in fields.items() if value or value == 0}
    line = json.dumps(kept, ensure_ascii=True) + "\n"
    if len(line) > MOST_BYTES:
        # Many characters outside of ASCII take up to twelve bytes each.
        line = json.dumps({name: _ascii(value) for name, value in kept.items()}, ensure_ascii=True) + "\n"
    return line.encode("ascii")


def _cut(name: str, value: Field) -> Field:
    match value:
        case str():
            return value[: _LONGEST_SHOWN if name in _LONGER else _LONGEST_TEXT]
        case int():
            return value
        case _:
            return {inner: str(_cut(inner, text)) for inner, text in value.items()}


def _ascii(value: Field) -> Field:
    match value:
        case str():
            return "".join(char if " " <= char <= "~" else "?" for char in value)
        case int():
            return value
        case _:
            return {name: str(_ascii(text)) for name, text in value.items()}


class LineBudget:
    """A token bucket: ``burst`` lines at once, then ``each_second`` more. Further lines are dropped and counted."""

    def __init__(self, each_second: int, burst: int) -> None:
        self._each_second = each_second
        self._burst = burst
        self._left = burst
        self.dropped = 0

    def take(self) -> bool:
        """Whether one more line may be written."""
        if self._left > 0:
            self._left -= 1
            return True
        self.dropped += 1
        return False

    def another_second(self) -> int:
        """Begin another second; return how many lines were dropped in the last one."""
        self._left = min(self._left + self._each_second, self._burst)
        dropped, self.dropped = self.dropped, 0
        return dropped
