"""The words of a command: its name and its options, as Redis reads them.

Redis compares them as C strings in any letter case, so a word ends at its first NUL: ``COPY a b "DB\\0x" 1`` names a
database. Keys, values and numbers are not read in this way.
"""


def word_of(argument: bytes) -> bytes:
    """What Redis compares with an option's name, in capitals."""
    return argument.partition(b"\0")[0].upper()
