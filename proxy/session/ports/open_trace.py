"""Traced commands: whose they are, how large, how long they took, and what came of them.

The sampler chooses them. A chosen command goes its usual way; its reply is measured while it passes through. What
has no reply of its own to measure (inside MULTI, blocking, refused …) is told as soon as it is routed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.commands.command import Command
from proxy.compression.frames import MAGIC
from proxy.hotpath.upstream.late_replies import LateEdit, Making, Portions
from proxy.rules.verdict import ReplyEdit
from proxy.session.ports.client import ServedClient


class TracePort(Protocol):
    """Who takes traces."""

    def clock(self) -> float:
        """Seconds on a clock that never goes back."""

    def see_form(self, client: ServedClient, command: Command, weight: int) -> None:
        """A command of this client stands for so many."""

    def observe(self, open_trace: "OpenTrace") -> None:
        """Take a trace that is complete."""

    def start_n_plus_one(self, weight: int) -> int:
        """How many reads a trace of this weight stands for if its client is followed from there; 0 if it is not."""

    def follows_slow(self) -> bool:
        """Count a command of the slow lane that the sampler has not chosen; whether it is traced all the same, with a
        weight of 0."""

    def observe_large(self, client: ServedClient, key: bytes, size: int, stored: int) -> None:
        """A command of this client on this key has a large reply, of at least ``size`` bytes; Redis has sent
        ``stored`` ones, if that is not 0."""

    def found_n_plus_one(self, pattern: str, weight: int) -> None:
        """So many reads of keys of this pattern each began a run of single reads."""


@dataclass(slots=True, eq=False)
class OpenTrace:
    """One command. Times are in seconds of the observer's clock; `sent` is 0 until it has left for Redis.

    `prefix` is what stands before the command's keys in Redis, `weight` how many commands it stands for,
    `first_line` the first line of its reply, empty where none is measured. Sizes are in bytes, as the client sends and
    gets them; `stored_in` and `stored_out` as Redis does, where values are stored compressed, else 0.
    """

    observer: TracePort
    client: ServedClient
    command: Command
    weight: int
    bytes_in: int
    arrived: float
    sent: float = 0.0
    answered: float = 0.0
    bytes_out: int = 0
    stored_in: int = 0
    stored_out: int = 0
    first_line: bytes = b""
    refused: bool = False
    prefix: bytes = b""

    def goes_as(self, argv: Sequence[bytes]) -> None:
        """The command has become this one."""
        if any(word.startswith(MAGIC) for word in argv):
            self.stored_in = sum(map(len, argv))

    def leaves(self) -> None:
        """The command has been written to Redis."""
        self.sent = self.observer.clock()

    def begins(self, line: bytes) -> None:
        """The first line of the reply is here."""
        self.first_line = line

    def comes(self, size: int, whole: bool) -> None:
        """So many bytes of the reply have come; they are its last if that makes it whole."""
        self.bytes_out += size
        if whole:
            self.answered = self.observer.clock()
            self.observer.observe(self)

    def around(self, edit: ReplyEdit) -> ReplyEdit:
        """The same edit of the reply, measured: the time until the reply was here, and its bytes as the client gets
        them."""
        if isinstance(edit, LateEdit):
            return _TracedEdit(self, edit)

        def traced(frame: bytes) -> bytes:
            self.begins(frame[: frame.find(b"\n") + 1])
            self.answered = self.observer.clock()
            edited = edit(frame)
            self.bytes_out += len(edited)
            self.stored_out = len(frame) if len(frame) < len(edited) else 0
            self.observer.observe(self)
            return edited

        return traced

    def without_reply(self) -> None:
        """Nothing more will be known of it."""
        self.observer.observe(self)


class _TracedEdit(LateEdit):
    """The `edit` of one reply, measured. It collects all of them."""

    __slots__ = ("_edit", "_trace", "opening")

    def __init__(self, trace: OpenTrace, edit: LateEdit) -> None:
        self._trace = trace
        self._edit = edit
        self.opening = b""

    @property
    def portions(self) -> Portions:
        return self._edit.portions

    def making(self, pieces: list[bytes]) -> Making:
        trace = self._trace
        trace.begins(pieces[0][: pieces[0].find(b"\n") + 1])
        trace.answered = trace.observer.clock()
        stored = sum(map(len, pieces))
        parts = yield from self._edit.making(pieces)
        trace.bytes_out += sum(map(len, parts))
        trace.stored_out = stored if stored < trace.bytes_out else 0
        trace.observer.observe(trace)
        return parts
