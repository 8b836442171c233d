"""What a command costs Redis: CPU seconds, by what Redis tells of its process and its commands.

It is asked again every ``EVERY`` seconds. While Redis has little to do, its cost for one command is not known anew.
"""

from collections.abc import Callable, Sequence

from proxy.session.ports.ports import Questions

EVERY = 10
"""Seconds."""
_LEAST = 1000
"""Commands between two questions, from which on their cost is told."""
_QUESTIONS: Questions = ((b"INFO", b"cpu"), (b"INFO", b"stats"))


class CommandCost:
    """``ask`` sends questions to Redis. ``seconds`` is the CPU time for one command, 0 while it is unknown."""

    def __init__(self, ask: Callable[[Questions, Callable[[Sequence[bytes] | None], None]], None]) -> None:
        self.seconds = 0.0
        self._ask = ask
        self._age = 0
        self._before: tuple[float, float] | None = None

    def another_second(self) -> None:
        """To be called every second."""
        self._age += 1
        if self._age >= EVERY or self._before is None:
            self._age = 0
            self._ask(_QUESTIONS, self._answered)

    def _answered(self, replies: Sequence[bytes] | None) -> None:
        told = _numbers(b"".join(replies or ()))
        own = told.get(b"used_cpu_user_main_thread"), told.get(b"used_cpu_sys_main_thread")
        user, system = own if None not in own else (told.get(b"used_cpu_user"), told.get(b"used_cpu_sys"))
        commands = told.get(b"total_commands_processed")
        if user is None or system is None or commands is None:
            return
        cpu = user + system
        if self._before is not None:
            spent, ran = cpu - self._before[0], commands - self._before[1]
            if 0 <= ran < _LEAST:
                return
            if ran > 0 and spent > 0:
                self.seconds = spent / ran
        self._before = cpu, commands


def _numbers(text: bytes) -> dict[bytes, float]:
    found: dict[bytes, float] = {}
    for line in text.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and value.replace(b".", b"", 1).isdigit():
            found[name] = float(value)
    return found
