"""What nodes say of their own slots: only a node itself tells which of its slots are open, and nobody lags behind it.

A ``Standing`` sums up what all primaries say. Two equal ones, one before and one after something, mean that no slot has
changed hands in between, as each change raises the config epoch of the slot's new owner; ``settled`` adds that no slot
is open, so that no key has moved either.
"""

import hashlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

from proxy.wire.decode import read_reply

_FIELDS = 8
"""Words of a line of CLUSTER NODES before its slots."""


class Standing(NamedTuple):
    """``mark`` is a number of 16 bits made of all owners, slots and epochs."""

    mark: int
    settled: bool


def standing(frames: Mapping[str, bytes], others: Collection[str] = ()) -> Standing:
    """Sum up the replies to CLUSTER NODES of primaries, by their ids; ``others`` are primaries that do not count.

    Not settled: an open slot, any further primary with slots, a node that is another one by now or no primary.
    """
    settled = True
    told = []
    for name, frame in sorted(frames.items()):
        text = read_reply(frame)
        for line in text.decode("utf-8", "replace").splitlines() if isinstance(text, bytes) else ():
            words = line.split(" ")
            if "myself" not in words[2]:
                # Whoever has slots, and is not asked, may have keys that nobody shows.
                known = words[0] in frames or words[0] in others
                settled = settled and (known or len(words) == _FIELDS or "fail" in words[2].split(","))
                continue
            settled = settled and words[0] == name and not any("[" in word for word in words[_FIELDS:])
            told.append(" ".join((words[0], words[6], *words[_FIELDS:])))
    settled = settled and len(told) == len(frames)
    digest = hashlib.blake2b("\n".join(told).encode(), digest_size=2).digest()
    return Standing(int.from_bytes(digest, "big"), settled)
