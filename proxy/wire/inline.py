"""Inline commands: a line of words, as typed in a telnet session.

The rules are those of Redis's ``sdssplitargs``: words are separated by white space; double quotes take the escapes
``\\xHH \\n \\r \\t \\b \\a`` and a backslash before any other byte; single quotes take only ``\\'``. White space or the
end of the line must follow a closing quote. Valkey since 9.0 lets a word go on behind it (``mixed``).
"""

_SPACE = frozenset(b" \t\n\v\f\r")
_ENDS_WORD = frozenset(b" \t\n\r\0")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_ESCAPES = {ord("n"): 10, ord("r"): 13, ord("t"): 9, ord("b"): 8, ord("a"): 7}


def split_inline(line: bytes, mixed: bool = False) -> list[bytes] | None:
    """Split a line (without its line feed) into words; None if its quotes are not balanced."""
    line = line.removesuffix(b"\r")
    words: list[bytes] = []
    position = 0
    while True:
        while position < len(line) and line[position] in _SPACE:
            position += 1
        if position >= len(line):
            return words
        word, position = _read_word(line, position, mixed)
        if position < 0:
            return None
        words.append(word)


def _read_word(line: bytes, position: int, mixed: bool) -> tuple[bytes, int]:
    """Read one word at ``position``; return it and the offset behind it. The offset is -1 if a quote is not closed."""
    word = bytearray()
    while position < len(line) and line[position] not in _ENDS_WORD:
        byte = line[position]
        position += 1
        if byte not in b"\"'":
            word.append(byte)
            continue
        read = _read_double_quoted if byte == ord('"') else _read_single_quoted
        position = read(line, position, word)
        if position < 0:
            return b"", -1
        if not mixed:
            if position < len(line) and line[position] not in _SPACE:
                return b"", -1
            break
    return bytes(word), position


def _read_double_quoted(line: bytes, position: int, word: bytearray) -> int:
    while position < len(line):
        byte = line[position]
        if byte == ord('"'):
            return position + 1
        if byte == ord("\\") and line[position + 1 : position + 2] == b"x":
            digits = line[position + 2 : position + 4]
            if len(digits) == 2 and _HEX.issuperset(digits):
                word.append(int(digits, 16))
                position += 4
                continue
        if byte == ord("\\") and position + 1 < len(line):
            byte = line[position + 1]
            word.append(_ESCAPES.get(byte, byte))
            position += 2
            continue
        word.append(byte)
        position += 1
    return -1


def _read_single_quoted(line: bytes, position: int, word: bytearray) -> int:
    while position < len(line):
        byte = line[position]
        if byte == ord("'"):
            return position + 1
        if line[position : position + 2] == b"\\'":
            word.append(ord("'"))
            position += 2
            continue
        word.append(byte)
        position += 1
    return -1
