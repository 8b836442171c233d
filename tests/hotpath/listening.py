"""The listener of a pipeline in tests: it writes down what it is told."""

from __future__ import annotations

from typing import Any


class Listener:
    """Runs no connection; ``events`` are what it was told, in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def out_of_step(self) -> None:
        self.events.append("out of step")

    def uninvited(self, frame: bytes) -> None:
        self.events.append(("uninvited", frame))

    def on_large_head(self, sink: Any) -> None:
        self.events.append(("on_large_head", sink))

    def overflowing(self, sink: Any) -> None:
        self.events.append(("overflowing", sink))

    def hold(self) -> None:
        self.events.append("hold")

    def resume_for(self, client: object) -> None:
        self.events.append("go on")

    def command_refused(self, line: bytes) -> None:
        self.events.append(("command_refused", line))

    def doubt_role(self) -> None:
        self.events.append("doubt_role")


def never(_flush: object) -> None:
    """A loop that calls nothing: tests flush by themselves."""
