"""How much Python a call runs: lines, not seconds, so that a busy machine changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.keyrail_process import package_folder


class TooManyStepsError(Exception):
    """What was measured had taken more steps than allowed, and was stopped there."""


def steps(act: Callable[[], object], most: int = 20_000_000) -> int:
    """The lines of the program that run in `act`; each turn of a loop, and of a comprehension, counts."""
    package, taken = f"{package_folder()}/", 0

    def count(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal taken
        if event == "line":
            taken += 1
            if taken > most:
                raise TooManyStepsError(most)
        return count

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        return count if frame.f_code.co_filename.startswith(package) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        act()
    finally:
        sys.settrace(before)
    return taken
