"""Time that a test sets."""

from __future__ import annotations

import asyncio


class Clock(asyncio.SelectorEventLoop):
    """A loop that does not run; it is `now`."""

    now = 1000.0

    def time(self) -> float:
        return self.now
