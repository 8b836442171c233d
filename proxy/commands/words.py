# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The words of a command: its name, its subcommand and its options, as Redis reads them.

Redis compares them as C strings in any letter case (``strcasecmp``), so a word ends at its first NUL: ``COPY a b
"DB\\0x" 1`` names a database. Keys, values and numbers are not read in this way.

No other module compares a client's arguments with words. ``word_of`` is for split arguments, ``Keyword`` for arguments
in the bytes of a request.
"""

LONGEST = 64
"""The first bytes of an argument that tell which word it is. Every word is shorter: without a NUL among these bytes,
the argument is no word."""


def word_of(argument: bytes) -> bytes:
    """The part of an argument that Redis compares with the names of commands and options, in capitals."""
    return argument.partition(b"\0")[0].upper()


class Keyword:
    """One word to look for in the bytes of requests."""

    def __init__(self, text: bytes) -> None:
        self.text = word_of(text)
        self.size = len(self.text)

    def stands_at(self, data: bytes | bytearray, start: int, end: int) -> bool:
        """Whether the argument between the offsets is this word, as ``word_of`` reads it."""
        size = self.size
        if end - start != size and (end - start < size or data[start + size] != 0):
            return False
        return _same(data, start, self.text, size)


def _same(data: bytes | bytearray, start: int, text: bytes, size: int) -> bool:
    i = 0
    while i < size:
        byte = data[start + i]
        if byte != text[i] and (byte < 97 or byte > 122 or byte - 32 != text[i]):
            return False
        i += 1
    return True
