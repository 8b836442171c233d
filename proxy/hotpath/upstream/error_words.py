# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The rows of ``commands.error_texts`` that are looked for in every error reply: without a Python object for one.

Each compares the error whose ``-`` is ``p[i]``, and whose line ends before ``end``, with the words of its row; a test
holds it to that. A script can return any of them, so they prove nothing.
"""


def redirected(p: bytes, i: int, end: int) -> bool:
    """REDIRECTED: MOVED, ASK, TRYAGAIN, CLUSTERDOWN."""
    if end - i < 6:
        return False
    if p[i + 1] == 77:
        return p[i + 2] == 79 and _ends(p, i + 3, end, b"VED", 3)
    if p[i + 1] == 65:
        return p[i + 2] == 83 and _ends(p, i + 3, end, b"K", 1)
    if p[i + 1] == 84:
        return p[i + 2] == 82 and _ends(p, i + 3, end, b"YAGAIN", 6)
    return p[i + 1] == 67 and p[i + 2] == 76 and _ends(p, i + 3, end, b"USTERDOWN", 9)


def unable(p: bytes, i: int, end: int) -> bool:
    """REPLICA_REFUSES, but for what is ``redirected``: LOADING, MASTERDOWN, BUSY, NOPERM, NOAUTH, NOSCRIPT."""
    if end - i < 7:
        return False
    if p[i + 1] == 76:
        return _ends(p, i + 2, end, b"OADING", 6)
    if p[i + 1] == 77:
        return _ends(p, i + 2, end, b"ASTERDOWN", 9)
    if p[i + 1] == 66:
        return _ends(p, i + 2, end, b"USY", 3)
    if p[i + 1] != 78 or p[i + 2] != 79:
        return False
    return _ends(p, i + 3, end, b"PERM", 4) or _ends(p, i + 3, end, b"AUTH", 4) or _ends(p, i + 3, end, b"SCRIPT", 6)


def read_only(p: bytes, i: int, end: int) -> bool:
    """READ_ONLY."""
    return end - i > 9 and p[i + 1] == 82 and p[i + 2] == 69 and _ends(p, i + 3, end, b"ADONLY", 6)


def refuses_command(p: bytes, i: int, end: int) -> bool:
    """REFUSES_COMMAND: NOPERM, ERR unknown."""
    if end - i < 8:
        return False
    if p[i + 1] == 78:
        return p[i + 2] == 79 and _ends(p, i + 3, end, b"PERM", 4)
    return p[i + 1] == 69 and p[i + 5] == 117 and _ends(p, i + 2, end, b"RR unknown", 10)


def _ends(p: bytes, i: int, end: int, word: bytes, size: int) -> bool:
    # Whether the word ends with these bytes: a space or the end of the line comes next.
    n = 0
    if end - i <= size or (p[i + size] != 32 and p[i + size] != 13):
        return False
    while n < size:
        if p[i + n] != word[n]:
            return False
        n += 1
    return True
