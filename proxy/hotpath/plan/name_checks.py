# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Passes requests by the names of their keys, without a rule: one pass over each key, by a table of allowed bytes, the
length, the number of segments, or an automaton for all that."""

from proxy.commands.keys import KeyFinder
from proxy.hotpath.plan.automaton import Automaton
from proxy.wire.request import Request

# What a byte is to a name, beside 0 for most.
_SEPARATOR = 1
_FORBIDDEN = 2


class NameProgram:
    """What a key must look like to pass without being judged: lengths in bytes, no ``separator`` is -1. ``access`` says
    which keys it is about: those that are read (1), written (2) or both. A name must also be owned by the ``language``,
    if there is one."""

    def __init__(
        self,
        allowed: bytes,
        min_length: int,
        max_length: int,
        separator: int,
        min_segments: int,
        max_segments: int,
        access: int,
        empty_segments: bool,
        language: Automaton | None = None,
    ) -> None:
        self.allowed = allowed
        self.kinds = bytes(
            _FORBIDDEN if allowed[byte] == 0 else _SEPARATOR if byte == separator else 0 for byte in range(256)
        )
        self.empty_segments = empty_segments
        self.min_length = min_length
        self.max_length = max_length
        self.separator = separator
        self.min_segments = min_segments
        self.max_segments = max_segments
        self.access = access
        self.language = language
        self.counts = separator >= 0 or any(self.kinds)

    def passes(self, request: Request, data: bytes, keys: KeyFinder, found: int) -> bool:
        """Whether the ``found`` keys that ``keys`` holds pass; False says only that ``judge`` must look at them."""
        i = 0
        while i < found:
            index = keys.indexes[i]
            if self.access & keys.access[i] and not self._fits(data, request.starts[index], request.ends[index]):
                return False
            i += 1
        return True

    def _fits(self, p: bytes, start: int, end: int) -> bool:
        if end - start < self.min_length or end - start > self.max_length:
            return False
        if self.counts and not self._walk(p, start, end, self.kinds):
            return False
        return self.language is None or self.language.find(p, start, end) >= 0

    def _walk(self, p: bytes, start: int, end: int, kinds: bytes) -> bool:
        segments = 1
        segment_start = start
        i = start
        while i < end:
            kind = kinds[p[i]]
            if kind != 0:
                if kind == _FORBIDDEN or (i == segment_start and not self.empty_segments):
                    return False
                segments += 1
                segment_start = i + 1
            i += 1
        if self.separator < 0:
            return True
        if segment_start == end and not self.empty_segments:
            return False
        return self.min_segments <= segments <= self.max_segments
