"""What a client has under way to a node of a cluster that has refused some of it: whether each may be sent again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from proxy.commands.command import Command
from proxy.commands.error_texts import EXEC_NOT_RUN, NAMES_NODE
from proxy.commands.slots import slot_of
from proxy.commands.table import Lane
from proxy.hotpath.order.reply_order import Segment
from proxy.hotpath.upstream.in_flight import (
    AS_IT_IS,
    LOCAL,
    ONCE,
    RAN,
    READ_AS_IT_IS,
    InFlightEntry,
)
from proxy.hotpath.upstream.sent_unit import SentUnit
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.rules.own_scripts import OWN_SCRIPTS
from proxy.session.session import Session
from proxy.wire.request import COMPLETE, Request


class Facts(NamedTuple):
    """What matters of a command, or of a transaction, for its order. ``slots`` is None where nobody can tell them, and
    so are the ``keys`` of what only ``reads``; ``own_errors`` says that an error may be its own, and not the node's."""

    slots: frozenset[int] | None
    reads: bool
    lane: Lane = Lane.FAST
    own_errors: bool = False
    keys: frozenset[bytes] | None = None

    def disturbs(self, other: "Facts") -> bool:
        """Whether the two may not change places: reads of one key may not, as others may write it between them."""
        if self.reads and other.reads:
            return self.keys is None or other.keys is None or not self.keys.isdisjoint(other.keys)
        return self.slots is None or other.slots is None or not self.slots.isdisjoint(other.slots)


@dataclass(slots=True, eq=False)
class SentCommand:
    """A command, or a transaction, that was under way to a node when some other was refused there. ``refused`` if it
    was, too."""

    raw: bytes
    facts: Facts
    refused: "RefusedCommand | None" = None


class Frame(NamedTuple):
    """What is to become of one frame; ``own`` if the client gets it."""

    own: bool
    action: int
    payload: Any


@dataclass(slots=True, eq=False)
class RefusedCommand:
    """A command that was refused. Its reply is awaited at ``place``, and is ``frames``, of which ``answered`` others of
    its transaction have come before. ``errors`` are what came in their place from ``upstream``. ``due`` says when it
    may be sent again."""

    raw: bytes
    facts: Facts
    unit: SentUnit | None
    place: Segment
    frames: list[Frame]
    answered: int
    errors: list[bytes]
    upstream: UpstreamPipeline
    since: float
    times: int
    due: float = 0.0

    @property
    def names_node(self) -> bool:
        """Whether the error names the node to which the command goes."""
        return NAMES_NODE.hinted(self.errors[0])

    @property
    def has_not_run(self) -> bool:
        """Whether it is proved that the node has run nothing of it."""
        if self.unit is None:
            return not self.facts.own_errors
        # Refused at EXEC; or before it, inside MULTI. Where the MULTI was refused, each command has run by itself.
        return len(self.errors) == 1 or EXEC_NOT_RUN.begin(self.errors[-1])


class SentRound:
    """What a client has under way to one connection, from the first command on that was refused there."""

    def __init__(self, session: Session, upstream: UpstreamPipeline) -> None:
        self._session = session
        self._commands: list[SentCommand] = []
        self._by_sent: dict[int, tuple[object, list[SentCommand]]] = {}
        for entry in upstream.entries():
            self._add(entry)

    def _add(self, entry: InFlightEntry) -> None:
        sent, unit = entry.sent, isinstance(entry.sent, SentUnit)
        sink = sent.sender if unit else entry.sink
        if entry.action == LOCAL or sink.client() is not self._session or sent is READ_AS_IT_IS:
            return
        if sent is RAN or not is_kept(sent):
            self._commands.append(SentCommand(b"", Facts(None, False)))
        elif id(sent) not in self._by_sent:
            found = [_unit(self._session, sent)] if unit else list(_commands(self._session, sent))
            self._by_sent[id(sent)] = sent, found
            self._commands += found if unit else found[len(found) - entry.due :]

    def command(self, entry: InFlightEntry) -> SentCommand:
        """The command that the next frame of this entry is the reply to."""
        _, found = self._by_sent[id(entry.sent)]
        return found[0] if isinstance(entry.sent, SentUnit) else found[len(found) - entry.due]

    def decide(self) -> Sequence[tuple[RefusedCommand, bool]]:
        """All that were refused, and whether each can be sent again, now that all of these are answered."""
        ran: list[Facts] = []
        found = []
        for command in reversed(self._commands):
            refused, may_have_run = command.refused, command.refused is None or not command.refused.has_not_run
            if refused is not None:
                found.append((refused, not may_have_run and not any(map(command.facts.disturbs, ran))))
            if may_have_run:
                ran.append(command.facts)
        return found[::-1]


def _commands(session: Session, raw: bytes) -> Iterator[SentCommand]:
    request, table = Request(), session.effective_policy.table
    while request.scan(raw, request.end, session.intake.limits) == COMPLETE:
        command = Command(table, request.arguments())
        keys = frozenset(key.name for key in command.known_keys)
        slots = None if not keys and command.spec.may_have_keys else frozenset(map(slot_of, keys))
        spec, known = command.spec, not OWN_SCRIPTS.isdisjoint(command.argv[1:2])
        own_errors = spec.own_errors and not known
        facts = Facts(slots, spec.only_reads, spec.lane, own_errors, None if slots is None else keys)
        yield SentCommand(raw[request.start : request.end], facts)


def _unit(session: Session, unit: SentUnit) -> SentCommand:
    raw = b"".join(unit.chunks)
    facts = [each.facts for each in _commands(session, raw)]
    lane = Lane.SLOW if any(each.own_errors for each in facts) else Lane.FAST
    return SentCommand(raw, Facts(frozenset().union(*(each.slots or () for each in facts)), False, lane))


def is_kept(sent: object) -> bool:
    """Whether a command was kept when it was sent, so that it can be sent again."""
    return sent not in (None, ONCE, AS_IT_IS, READ_AS_IT_IS) and (not isinstance(sent, SentUnit) or sent.kept)
