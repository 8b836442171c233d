"""Converts a reply of RESP3 into the reply of RESP2 to the same command.

Maps and sets become arrays, doubles and verbatim strings plain strings, booleans 1 and 0. Redis is not uniform in two
things, so the caller says which: a null is a null string or a null array, and pairs of a member and its score are
arrays of their own or stand one after the other.
"""

_NULL_STRING = b"$-1\r\n"
_NULL_ARRAY = b"*-1\r\n"
_VERBATIM_FORMAT = 4
"""Bytes in front of a verbatim string: ``txt:``."""


def as_resp2(frame: bytes, *, null_arrays: bool = False, flat: bool = False) -> bytes:
    """The whole reply ``frame`` in RESP2. With ``flat``, the elements of inner arrays become elements of the outer one.

    Raises ValueError for a type that no reply to a read has.
    """
    null = _NULL_ARRAY if null_arrays else _NULL_STRING
    pieces: list[bytes] = []
    inner = 0
    position = 0
    while position < len(frame):
        line_end = frame.index(b"\r\n", position)
        kind, line = frame[position : position + 1], frame[position + 1 : line_end]
        start, position = position, line_end + 2
        if kind in (b"$", b"="):
            size = int(line)
            value = frame[position : position + size]
            if kind == b"=":
                value = value[_VERBATIM_FORMAT:]
            pieces.append(b"$%d\r\n%b\r\n" % (len(value), value))
            position += size + 2
        elif kind == b"_":
            pieces.append(null)
        elif kind == b",":
            pieces.append(b"$%d\r\n%b\r\n" % (len(line), line))
        elif kind == b"#":
            pieces.append(b":1\r\n" if line == b"t" else b":0\r\n")
        elif kind == b"*" and flat and start > 0:
            inner += int(line) - 1
        elif kind in (b"*", b"~"):
            pieces.append(b"*%b\r\n" % line)
        elif kind == b"%":
            pieces.append(b"*%d\r\n" % (2 * int(line)))
        elif kind in (b"+", b":", b"-"):
            pieces.append(frame[start:position])
        else:
            raise ValueError(f"a reply to a read has no element that begins with {kind!r}")
    if inner != 0:
        pieces[0] = b"*%d\r\n" % (int(pieces[0][1:-2]) + inner)
    return b"".join(pieces)
