"""The queue towards Redis: while a unit is open, only its owner's bytes are written, and a command that is sent in
pieces is never interrupted, whatever clients and Keyrail itself send.

Three senders play random programs to one connection. A small independent reader then checks the written bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.hotpath.upstream.in_flight import FORWARD, ReplySink
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from tests.hotpath.listening import Listener, never

SENDERS = 3
ACTS = ("submit", "send", "offer", "open", "close", "begin", "piece", "withhold", "end")

programs = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, SENDERS - 1)), max_size=40)


@dataclass
class Play:
    """One connection, and what its units should be."""

    upstream: UpstreamPipeline = field(default_factory=lambda: UpstreamPipeline(Listener(), never))
    senders: list[ReplySink] = field(default_factory=lambda: [ReplySink() for _ in range(SENDERS)])
    written: list[bytes] = field(default_factory=list)
    unit: int | None = None
    partial: int | None = None
    allowed: list[bytes] = field(default_factory=list)
    withheld: bytes = b""
    letters: int = 0

    def __post_init__(self) -> None:
        self.upstream.write = self.written.append

    def admits(self, who: int) -> bool:
        return self.partial is None and self.unit in (None, who)

    def letter(self) -> bytes:
        """Bytes that occur once."""
        self.letters += 1
        return b"<%d>" % self.letters

    def act(self, act: str, who: int) -> None:
        sender, upstream, chunk = self.senders[who], self.upstream, self.letter()
        assert upstream.admits(sender) == self.admits(who)
        match act:
            case "offer":
                assert upstream.offer_commands(sender, chunk) == self.admits(who)
                self.allowed += [chunk] if self.admits(who) else []
            case "submit" | "send" | "begin" if not self.admits(who):
                with pytest.raises(AssertionError):
                    upstream.begin_partial(sender) if act == "begin" else self.command(act, sender, chunk)
            case "submit" | "send":
                self.command(act, sender, chunk)
                self.allowed.append(chunk)
            case "open" | "close" if self.admits(who):
                self.unit = who if act == "open" else None
                upstream.unit = sender if act == "open" else None
            case "begin":
                upstream.begin_partial(sender)
                self.partial = who
            case "piece" | "withhold" | "end" if self.partial != who:
                with pytest.raises(AssertionError):
                    upstream.end_partial(sender) if act == "end" else upstream.send_partial(
                        sender, chunk, act != "piece"
                    )
            case "piece" | "withhold" if not (act == "piece" and self.withheld):
                upstream.send_partial(sender, chunk, act == "withhold")
                whole = self.withheld + chunk
                self.withheld = whole[-1:] if act == "withhold" else b""
                self.allowed.append(whole[:-1] if act == "withhold" else whole)
            case "end":
                upstream.end_partial(sender)
                self.allowed.append(self.withheld)
                self.withheld, self.partial = b"", None

    def command(self, act: str, sender: ReplySink, chunk: bytes) -> None:
        if act == "submit":
            self.upstream.send_run(sender, chunk, 1)
        else:
            self.upstream.send_commands(sender, chunk)


@given(programs)
def test_only_what_belongs_there_is_written(program: list[tuple[str, int]]) -> None:
    play = Play()
    for act, who in program:
        play.act(act, who)
        play.upstream.flush()
        assert b"".join(play.written) == b"".join(play.allowed)
    assert all(entry.action == FORWARD for entry in play.upstream.entries())


def test_a_connection_with_a_withheld_byte_is_closed_without_it() -> None:
    play = Play()
    for act in ("begin", "withhold", "offer"):
        play.act(act, 0)
    play.upstream.flush()
    play.upstream.abandon()
    play.upstream.flush()
    assert b"".join(play.written) == b"<2"
