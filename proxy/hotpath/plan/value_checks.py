# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Passes requests whose values begin as no refused format does, without a rule.

Two look-ups for each value. Every format has a bit, which is set in ``firsts`` for the bytes that it may begin with and
in ``seconds`` for those that may follow. Where both bytes have a bit in common, the rule looks at the whole value. A
value of one byte is of no format.
"""

from proxy.wire.request import Request


class ValueProgram:
    """The values are the argument ``first`` and every ``step``-th behind it; with a ``step`` of 0 only that one."""

    def __init__(self, first: int, step: int, firsts: bytes, seconds: bytes) -> None:
        if first < 1 or step < 0 or len(firsts) != 256 or len(seconds) != 256:
            raise ValueError("values stand behind the name, and every byte has its bits")
        self.first = first
        self.step = step
        self.firsts = firsts
        self.seconds = seconds

    def passes(self, request: Request, data: bytes) -> bool:
        """Whether no value begins as a format does; False says only that the request must be judged."""
        return self._walk(request, data, self.firsts, self.seconds)

    def _walk(self, request: Request, data: bytes, firsts: bytes, seconds: bytes) -> bool:
        i = self.first
        while i < request.argc:
            start = request.starts[i]
            if request.ends[i] - start > 1 and firsts[data[start]] & seconds[data[start + 1]]:
                return False
            if self.step == 0:
                break
            i += self.step
        return True
