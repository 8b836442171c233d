# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Passes requests that are none of a rule's: by their keys, or because they are small and their arguments begin as none
does that the rule is about."""

from proxy.commands.keys import KeyFinder
from proxy.hotpath.plan.name_checks import NameProgram
from proxy.hotpath.plan.value_checks import ValueProgram
from proxy.wire.request import Request


class KeyProgram:
    """The rule is about keys that do not pass ``names``. Requests of at most ``size`` bytes on the wire pass whatever
    their keys are, if their arguments pass all ``values``."""

    def __init__(self, names: NameProgram, size: int, values: list[ValueProgram]) -> None:
        self.names = names
        self.size = size
        self.values = values

    def passes(self, request: Request, data: bytes, keys: KeyFinder, found: int) -> bool:
        """Whether the request, whose ``found`` keys ``keys`` holds, passes; False says only that it must be judged."""
        small = request.end - request.start <= self.size
        return (small and self._begin_well(request, data)) or self.names.passes(request, data, keys, found)

    def _begin_well(self, request: Request, data: bytes) -> bool:
        for values in self.values:
            if not values.passes(request, data):
                return False
        return True
