# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""How many error replies there were, by their first word: ERR, WRONGTYPE, OOM, …

Scripts can make up any word, so only those that Redis and Valkey use are counted by name (``addReplyError`` and the
shared errors in ``server.c`` of both); all others are ``other``. To count one makes no Python object.
"""

from array import array

OTHER = "other"
PREFIXES = (
    "ASK",
    "BUSY",
    "BUSYGROUP",
    "BUSYKEY",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "DENIED",
    "ERR",
    "EXECABORT",
    "INPROG",
    "IOERR",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOGOODSLAVE",
    "NOGROUP",
    "NOMASTERLINK",
    "NOPERM",
    "NOPROTO",
    "NOREPLICAS",
    "NOSCRIPT",
    "NOTBUSY",
    "NOTREADY",
    "OOM",
    "READONLY",
    "REDIRECT",
    "TRYAGAIN",
    "UNBLOCKED",
    "UNKILLABLE",
    "WRONGPASS",
    "WRONGTYPE",
)
_MOST = len(PREFIXES)
_LONGEST = 16
_WORD = 0xFFFF_FFFF


def _folded(prefix: bytes) -> int:
    word = 0
    for byte in prefix:
        word = (word * 31 + byte) & _WORD
    return word


class ErrorCounts:
    """Error replies since the start, by prefix."""

    def __init__(self) -> None:
        self._words = array("Q", [_folded(prefix.encode()) for prefix in PREFIXES])
        self._numbers = array("Q", bytes(8 * (_MOST + 1)))

    def add(self, p: bytes, start: int, end: int) -> None:
        """Count the error reply whose ``-`` is ``p[start]``; ``end`` is behind its line."""
        word = 0
        i = start + 1
        end = min(end, start + _LONGEST)
        while i < end and 65 <= p[i] <= 90:
            word = (word * 31 + p[i]) & _WORD
            i += 1
        place = 0
        while place < _MOST and self._words[place] != word:
            place += 1
        self._numbers[place] += 1

    def figures(self) -> dict[str, int]:
        """The number of each prefix that there was."""
        return {
            prefix: number for prefix, number in zip((*PREFIXES, OTHER), map(int, self._numbers), strict=True) if number
        }
