"""How long each command takes at Redis on the average, by what Redis tells of its commands (``INFO commandstats``).

It is asked only while replies take long. Two answers of the same process make an average.
"""

from collections.abc import Callable, Mapping, Sequence

from proxy.session.ports.ports import Questions
from proxy.wire.numbers import read_digits

SLOW_SECONDS = 0.005
"""A reply that takes longer is a reason to ask."""
_EVERY, _LASTS = 2, 10
"""Seconds between two questions, and for how many they go on after a reason."""
_QUESTIONS: Questions = ((b"INFO", b"server"), (b"INFO", b"commandstats"))
_BEGIN = "cmdstat_"

Answered = Callable[[Sequence[bytes] | None], None]


class CommandTimesAtRedis:
    """``ask`` sends questions to Redis. ``seconds`` has the time of each command that has run of late, by its name in
    capitals."""

    def __init__(self, ask: Callable[[Questions, Answered], None]) -> None:
        self.seconds: Mapping[str, float] = {}
        self._ask = ask
        self._second = 0
        self._until = -1
        self._asked = -_EVERY
        self._waits = False
        self._before: tuple[bytes, Mapping[str, tuple[int, int]]] | None = None

    def another_second(self, slowest: float) -> None:
        """To be called every second, with the longest time that a reply took in it."""
        self._second += 1
        if slowest >= SLOW_SECONDS:
            self._until = self._second + _LASTS
        if self._second > self._until:
            self.seconds, self._before = {}, None
        elif not self._waits and self._second - self._asked >= _EVERY:
            self._waits, self._asked = True, self._second
            self._ask(_QUESTIONS, self._answered)

    def _answered(self, replies: Sequence[bytes] | None) -> None:
        self._waits = False
        text = b"".join(replies or ())
        process = text.partition(b"run_id:")[2].partition(b"\r\n")[0]
        calls = dict(filter(None, map(_call, text.split(b"\r\n"))))
        before, self._before = self._before, (process, calls)
        if before is not None and process and before[0] == process:
            self.seconds = dict(_averages(before[1], calls))


def _call(line: bytes) -> tuple[str, tuple[int, int]] | None:
    # cmdstat_config|get:calls=1,usec=10,usec_per_call=10.00,…
    name, colon, values = line.decode("utf-8", "replace").removeprefix(_BEGIN).partition(":")
    told = dict(each.partition("=")[::2] for each in values.split(","))
    count, took = read_digits(told.get("calls", "")), read_digits(told.get("usec", ""))
    if not (line.startswith(_BEGIN.encode()) and colon) or count is None or took is None:
        return None
    return name.replace("|", " ").upper(), (count, took)


def _averages(
    before: Mapping[str, tuple[int, int]], now: Mapping[str, tuple[int, int]]
) -> "Sequence[tuple[str, float]]":
    found = []
    for name, (count, took) in now.items():
        count_before, took_before = before.get(name, (0, 0))
        if count > count_before and took >= took_before:
            found.append((name, (took - took_before) / (count - count_before) / 1e6))
    return found
