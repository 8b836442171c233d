# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Which commands are looked at closely: one of ``interval``, at random, and never more than a worker can afford.

What is looked at leaves the run: it is judged, its client and reply are looked at, and it is timed. That costs tens of
microseconds, so there is a number of looks for each second. While there are few commands, it is one of two. When more
come, the interval grows at once, so that a burst costs no more than a few times the usual; each second it is set anew
to what the last one would have wanted.

The gaps between looks are random (uniform, their mean is the interval), or a client that sends in step would be seen
always or never. Each look stands for as many commands as its interval was, so sums over looks are unbiased.
"""

_STEP = 16
_LEAST = 2


class Sampler:
    """``looks`` per second; 0 for none at all. ``seed`` is any number but 0."""

    def __init__(self, looks: int, seed: int = 1) -> None:
        self.looks = looks
        self.interval = _LEAST
        self.weight = 1
        self.left = 1 if looks > 0 else 1 << 62
        self._random = (seed & 0xFFFF_FFFF_FFFF_FFFF) | 1
        self._taken = 0
        self._seen = 0

    def due(self) -> bool:
        """Count a command; whether it is to be looked at. ``weight`` says how many it then stands for."""
        self.left -= 1
        if self.left > 0:
            return False
        self.weight = self.interval
        self._seen += self.interval
        self._taken += 1
        if self._taken >= self.looks and (self._taken - self.looks) % _STEP == 0:
            self.interval *= 2
        self._draw()
        return True

    def _draw(self) -> None:
        # Marsaglia's xorshift: three shifts are random enough to be out of step with every client.
        value = self._random
        value ^= (value << 13) & 0xFFFF_FFFF_FFFF_FFFF
        value ^= value >> 7
        value ^= (value << 17) & 0xFFFF_FFFF_FFFF_FFFF
        self._random = value
        self.left = 1 + value % (2 * self.interval - 1)

    def another_second(self) -> None:
        """Set the interval to what the commands of the last second would have wanted."""
        if self.looks > 0:
            self.interval = max(_LEAST, -(-self._seen // self.looks))
            self.left = min(self.left, 2 * self.interval)
        self._taken = 0
        self._seen = 0
