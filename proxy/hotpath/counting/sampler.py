# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Which commands are traced: one of ``interval``, at random, and never more than a worker can afford.

A traced command leaves the run: it is timed, and its client and reply are noted. That costs tens of
microseconds, so there is a limit on traces for each second. While there are few commands, it is every one, so their
figures are exact. Each second the interval is set anew to what the last one would have wanted, but it shrinks by steps,
and slowly while nothing comes: what was busy a moment ago will hardly come back as one command.

Traffic that begins, or becomes more, must not be traced as often as the little that was there before. So when the
traces that a second begins with are used up (all of them where the second before was busy too, else a quarter), the
interval grows at once, and faster once the second has had all its traces.

The gaps between traces are random (uniform, their mean is the interval), or a client that sends in step would be seen
always or never. Each trace stands for as many commands as its interval was, so sums over traces are unbiased, but for
what came after the last one.
"""

_STEP = 8
_LEAST = 1
_FALL = 8


class Sampler:
    """``traces`` per second; 0 for none at all. ``seed`` is any number but 0. With ``all``, every command is traced."""

    def __init__(self, traces: int, seed: int = 1, *, every: bool = False) -> None:
        self.traces = traces
        self.interval = _LEAST
        self.weight = 1
        self.left = 1 if traces > 0 else 1 << 62
        self.all = False
        self._random = (seed & 0xFFFF_FFFF_FFFF_FFFF) | 1
        self._free = traces // 4
        self._taken = 0
        self._gap = self.left
        self._passed = 0
        self.take_all(every)

    def due(self) -> bool:
        """Count a command; whether it is to be traced. ``weight`` says how many it then stands for."""
        self.left -= 1
        if self.left > 0:
            return False
        if self.all:
            self.left = self.weight = 1
            return True
        self.weight = self.interval
        self._passed += self._gap
        self._taken += 1
        if self._taken >= self._free and (self._taken - self._free) % _STEP == 0:
            self.interval *= 2 if self._taken < self.traces else 4
        self._draw()
        return True

    def take_all(self, every: bool) -> None:
        """Trace every command from now on, or choose again."""
        if every != self.all:
            self.all = every
            self.interval = _LEAST
            self.left = self._gap = 1 if every or self.traces > 0 else 1 << 62

    def _draw(self) -> None:
        # Marsaglia's xorshift: three shifts are random enough to be out of step with every client.
        value = self._random
        value ^= (value << 13) & 0xFFFF_FFFF_FFFF_FFFF
        value ^= value >> 7
        value ^= (value << 17) & 0xFFFF_FFFF_FFFF_FFFF
        self._random = value
        self.left = 1 + value % (2 * self.interval - 1)
        self._gap = self.left

    def another_second(self) -> None:
        """Set the interval to what the commands of the last second would have wanted."""
        if self.all:
            return
        commands = self._passed + self._gap - self.left
        if self.traces > 0:
            wanted = (commands + self.traces - 1) // self.traces
            self._free = self.traces if commands > 0 else self.traces // 4
            self.interval = max(_LEAST, wanted, self.interval // (_FALL if commands > 0 else 2))
            self.left = min(self.left, 2 * self.interval)
        self._gap = self.left
        self._passed = 0
        self._taken = 0
