"""What nodes say of their own slots: only a node itself tells which of its slots are open, and nobody lags behind it.

A ``Standing`` sums up what all primaries say. Two equal ones, one before and one after something, mean that no slot has
changed hands in between, as each change raises the config epoch of the slot's new owner; ``settled`` adds that no slot
is open, so that no key has moved either.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from proxy.wire.decode import read_reply

_FIELDS = 8
"""Words of a line of CLUSTER NODES before its slots."""
_MOST_MARKS = 100


class Standing(NamedTuple):
    """``mark`` is a number of 16 bits made of all owners, slots and epochs. ``complete``: nobody else has slots, so
    that each key is on one of the nodes that were asked."""

    mark: int
    settled: bool
    complete: bool


def standing(frames: Mapping[str, bytes], others: Collection[str] = ()) -> Standing:
    """Sum up the replies to CLUSTER NODES of primaries, by their ids; ``others`` are primaries that do not count.

    Not complete: any further primary with slots, or with keys of an open one; a node that is another one by now or no
    primary. Not settled: that, or an open slot.
    """
    complete, settled = True, True
    told = []
    for name, frame in sorted(frames.items()):
        for words in _lines(frame):
            if "myself" not in words[2]:
                # Whoever has slots, and is not asked, may have keys that nobody shows; or its successor, if it failed.
                complete = complete and (words[0] in frames or words[0] in others or len(words) == _FIELDS)
                continue
            peers = {word.rstrip("]").rpartition("-")[2] for word in words[_FIELDS:] if "[" in word}
            complete = complete and words[0] == name and all(peer in frames or peer in others for peer in peers)
            settled = settled and not peers
            told.append(" ".join((words[0], words[6], *words[_FIELDS:])))
    complete = complete and len(told) == len(frames)
    digest = hashlib.blake2b("\n".join(told).encode(), digest_size=2).digest()
    return Standing(int.from_bytes(digest, "big"), settled and complete, complete)


class SlotStanding(NamedTuple):
    """``mark`` is a number of 16 bits made of what all primaries say of one slot, and of its owner's epoch. ``order``
    has their ids: first those that have nothing to do with the slot, then its owner, then those that import it, so that
    keys move only towards its end while the mark stays. ``complete`` as in ``Standing``."""

    mark: int
    order: tuple[str, ...]
    complete: bool


def slot_standing(frames: Mapping[str, bytes], others: Collection[str], slot: int) -> SlotStanding:
    """Sum up what the replies to CLUSTER NODES of primaries say of this slot."""
    told: list[tuple[int, str, str]] = []
    for name, frame in sorted(frames.items()):
        words = next((words for words in _lines(frame) if "myself" in words[2]), ["" for _ in range(_FIELDS)])
        says = [word for word in words[_FIELDS:] if _is_about(word, slot)]
        imports = any("-<-" in word for word in says)
        owns = any("[" not in word for word in says)
        about = " ".join(word for word in says if "[" in word) + (f" owns in {words[6]}" if owns else "")
        told.append((2 if imports else 1 if owns else 0, name, about))
    digest = hashlib.blake2b(repr(told).encode(), digest_size=2).digest()
    order = tuple(name for _, name, _ in sorted(told))
    return SlotStanding(int.from_bytes(digest, "big"), order, standing(frames, others).complete)


def _lines(frame: bytes) -> list[list[str]]:
    text = read_reply(frame)
    lines = text.decode("utf-8", "replace").splitlines() if isinstance(text, bytes) else ()
    return [line.split(" ") for line in lines]


def _is_about(word: str, slot: int) -> bool:
    # ``5``, ``5-9``, ``[5->-peer]``, ``[5-<-peer]``
    if word.startswith("["):
        return word[1:].partition("-")[0] == str(slot)
    first, _, last = word.partition("-")
    return int(first) <= slot <= int(last or first)


class KnownMarks:
    """The primaries that marks are of, as far as this process has asked them itself."""

    def __init__(self) -> None:
        self._primaries: dict[int, tuple[str, ...]] = {}

    def add(self, mark: int, primaries: Iterable[str]) -> None:
        """These primaries, by their ids, have been summed up in this mark."""
        if len(self._primaries) >= _MOST_MARKS:
            self._primaries.clear()
        self._primaries[mark] = tuple(sorted(primaries))

    def are_of(self, mark: int, primaries: Iterable[str]) -> bool:
        """Whether the mark is known to be one of these primaries."""
        return self._primaries.get(mark) == tuple(sorted(primaries))
