"""How a command goes on: at once, later, in the middle, or not at all.

A command needs several things at the same time: a connection, the replies before its own, no pause of writes, a node
for its slot. So it is examined as a whole. Where one of them is not there, ``NotYet`` is raised behind a call that
tells the session as soon as that may have changed; then the command is examined from its beginning. Nothing of it has
been done by then, so to examine it once more is never wrong.

A command of which something has been sent is never begun anew. Where it has to wait in the middle, its handler returns
a ``Step``: a generator that keeps what it has learnt in its local variables, goes on where it stopped, and looks
whether what it waits for is there. A client that leaves closes its step.

What cannot run is ``Refused``.
"""

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Step: TypeAlias = Generator[None, None, T]
"""The rest of a command. Each ``yield`` stands behind a call that says what the session waits for."""


class NotYet(Exception):
    """The command waits, and nothing of it has been done. The session knows for what."""


class Refused(Exception):
    """The command does not run, and its client gets this error."""

    def __init__(self, error: bytes) -> None:
        super().__init__(error)
        self.error = error


def taken(take: Callable[[], T]) -> Step[T]:
    """What ``take`` returns, once it does not raise ``NotYet``: for a command in the middle."""
    while True:
        try:
            return take()
        except NotYet:
            pass  # and forget where it was raised, before this one waits
        yield
