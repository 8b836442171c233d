# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The requests under which a reply cache has replies, where they are not what a client has sent."""

from proxy.wire.request import Request

_PART = b"*2\r\n$4\r\nMGET\r\n$%d\r\n%b\r\n"
_PREFIXED = b"%b$%d\r\n%b%b"


def part_of(name: bytes) -> bytes:
    """The request whose reply has the element of this key of a read of several."""
    return _PART % (len(name), name)


def prefixed(prefix: bytes, data: bytes, request: Request, index: int) -> bytes:
    """A scanned request of a tenant's client, with the prefix before its only key, the argument of this index."""
    start = request.starts[index]
    size = len(prefix) + request.ends[index] - start
    head = data[request.start : request.ends[index - 1] + 2]
    return _PREFIXED % (head, size, prefix, data[start : request.end])
