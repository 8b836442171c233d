# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Finds the command of a request without making a Python object.

An open-addressing hash over the names, folded to lower case as Redis folds them (ASCII only). A subcommand is looked up
by its own name; its container's id is part of both hash and comparison. So ``CLIENT|SETNAME`` sent as ONE argument is
an unknown command, as it is in Redis. An alias, the name that an operator has given to a command (``rename-command``),
is found as that command.
"""

from array import array
from collections.abc import Sequence

from proxy.wire.request import Request

_FOLD = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))


class Lookup:
    """Command ids by request: ``names[id]`` is ``"GET"`` or ``"CLIENT|SETNAME"``; id 0 is unknown.

    A request with the name ``names[id]`` is found as ``stands_for[id]``, which is ``id`` unless the name is an alias.
    """

    def __init__(self, names: Sequence[str], containers: Sequence[bool], stands_for: Sequence[int]) -> None:
        size = 1
        while size < 4 * len(names):
            size *= 2
        self.mask = size - 1
        self.slots = array("i", bytes(4 * size))
        self.parents = array("i", bytes(4 * len(names)))
        self.starts = array("i", bytes(4 * len(names)))
        self.ends = array("i", bytes(4 * len(names)))
        self.containers = bytes(containers)
        self.stands_for = array("i", stands_for)
        self.fold = _FOLD
        self.longest = 0
        ids = {name: i for i, name in enumerate(names)}
        text = b""
        for i, name in enumerate(names):
            container, _, subcommand = name.partition("|")
            own = (subcommand or container).lower().encode("ascii")
            self.starts[i] = len(text)
            self.ends[i] = len(text) + len(own)
            self.parents[i] = ids[container] if subcommand else 0
            self.longest = max(self.longest, len(own))
            text += own
        self.text = text
        for i in range(1, len(names)):
            slot = self._hash(text, self.starts[i], self.ends[i], self.parents[i]) & self.mask
            while self.slots[slot] != 0:
                slot = (slot + 1) & self.mask
            self.slots[slot] = i

    def find(self, request: Request) -> int:
        """The id of the request's command; 0 if the table does not know it.

        If the first argument is a container, the second belongs to the name. With an unknown subcommand the command is
        unknown. A container alone is the container: Redis answers an error to it, or a reply in the case of COMMAND.
        """
        return self.find_in(request, request.data)

    def find_in(self, request: Request, data: bytes | bytearray) -> int:
        """``find`` for callers that have the request's bytes as a pointer."""
        if request.argc == 0:
            return 0
        found = self.stands_for[self._find_name(data, request.starts[0], request.ends[0], 0)]
        if self.containers[found] == 0 or request.argc == 1:
            return found
        return self._find_name(data, request.starts[1], request.ends[1], found)

    def _find_name(self, data: bytes | bytearray, start: int, end: int, parent: int) -> int:
        if end - start > self.longest:
            return 0
        slot = self._hash(data, start, end, parent) & self.mask
        found = self.slots[slot]
        while found != 0:
            if (
                self.parents[found] == parent
                and self.ends[found] - self.starts[found] == end - start
                and self._same(data, start, end, self.starts[found])
            ):
                return found
            slot = (slot + 1) & self.mask
            found = self.slots[slot]
        return 0

    def _hash(self, data: bytes | bytearray, start: int, end: int, parent: int) -> int:
        value = parent + 1
        i = start
        while i < end:
            value = (value * 31 + self.fold[data[i]]) & 0xFFFFFF
            i += 1
        return value

    def _same(self, data: bytes | bytearray, start: int, end: int, at: int) -> bool:
        i = start
        while i < end:
            if self.fold[data[i]] != self.text[at]:
                return False
            at += 1
            i += 1
        return True
