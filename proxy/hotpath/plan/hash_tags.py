# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Passes requests whose keys surely have one hash slot, without a rule: they have the same hash tag, or are the same.

Different tags may have one slot, too, but by chance: the rule looks at those. The slot of a tenant's key is that of its
name with the prefix, which has no braces: a tag is the same with it, and equal names stay equal. But a name that equals
the tag of another has the prefix, and the tag has not.
"""

from proxy.commands.keys import KeyFinder
from proxy.wire.request import Request

_OPEN = 0x7B  # {
_CLOSE = 0x7D  # }


def one_hashed_part(request: Request, data: bytes, keys: KeyFinder, found: int) -> bool:
    """Whether what is hashed (``proxy.commands.slots.hashed_part``) is the same for all ``found`` keys that ``keys``
    holds, with any prefix before them; False says only that ``judge`` must look at them."""
    first = 0
    size = -1
    first_tagged = False
    i = 0
    while i < found:
        start = request.starts[keys.indexes[i]]
        end = request.ends[keys.indexes[i]]
        opened = start
        while opened < end and data[opened] != _OPEN:
            opened += 1
        closed = opened + 1
        while closed < end and data[closed] != _CLOSE:
            closed += 1
        tagged = opened + 1 < closed < end
        if tagged:
            start = opened + 1
            end = closed
        if i == 0:
            first = start
            size = end - start
            first_tagged = tagged
        elif tagged != first_tagged or end - start != size or not _same(data, first, start, size):
            return False
        i += 1
    return True


def _same(p: bytes, first: int, second: int, size: int) -> bool:
    i = 0
    while i < size:
        if p[first + i] != p[second + i]:
            return False
        i += 1
    return True
