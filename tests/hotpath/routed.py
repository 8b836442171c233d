"""An intake whose session is the test, over the nodes of a topology: it splits commands with keys of several slots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby

from proxy.commands.slots import SLOTS
from proxy.commands.table import STANDARD
from proxy.hotpath.cluster.router import SEVERAL_SLOTS, Router
from proxy.hotpath.cluster.split import Split, split
from proxy.hotpath.intake.intake import TAKEN
from proxy.hotpath.order.join import Join, SumJoin, ValuesJoin
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.upstream.in_flight import FORWARD
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.wire.request import Request
from tests.hotpath.gathering import Client, command_id, pack

NAUGHTY = "FLUSHALL"
REFUSAL = b"-DENIED by the test\r\n"
_STRIDE = 512
"""So many slots are compared at once."""


def owners(nodes: int) -> list[int]:
    """Slots in equal parts, as redis-cli shares them out."""
    return list(_shared_out(nodes))


@cache
def _shared_out(nodes: int) -> Sequence[int]:
    return [slot * nodes // SLOTS for slot in range(SLOTS)]


def reassign(router: Router, before: Sequence[int], after: Sequence[int]) -> None:
    """Tell a router what has changed: slots that have other owners than before."""
    for first in range(0, SLOTS, _STRIDE):
        behind = first + _STRIDE
        if before[first:behind] != after[first:behind]:
            for owner, run in groupby(range(first, behind), after.__getitem__):
                slots = list(run)
                router.own(slots[0], slots[-1], owner)


class Routed(Client):
    """A client of several nodes; the policy refuses FLUSHALL, and KEYRAIL's own commands are answered by Keyrail."""

    def __init__(self, nodes: Sequence[UpstreamPipeline], slots: Sequence[int]) -> None:
        plan = Plan(len(STANDARD.specs))
        plan.refuse(command_id(NAUGHTY), REFUSAL)
        super().__init__(plan)
        self.slots = slots
        self.router = Router(slots)
        self.intake.config.router = self.router
        self.sender.nodes = list(nodes)
        self.heard = b""
        self.sender.write = self.hear

    def hear(self, data: bytes) -> None:
        self.heard += data

    def handle(self, command_id: int, data: bytes, request: Request) -> int:
        words = request.arguments()
        if words[0] == b"KEYRAIL":
            self.answer_itself(b"+" + words[1] + b"\r\n")
        elif self.router.node(command_id, request, data, STANDARD.keys) == SEVERAL_SLOTS:
            parts = split(command_id, request, data, STANDARD.keys, self.router)
            assert parts is not None
            self.scatter(parts)
        else:
            assert self.sender.nodes is not None
            assert self.sender.nodes[0] is not None
            self.sender.send_for(
                self.sender.begin_order().segment(self.sender.nodes[0]),
                self.sender.nodes[0],
                pack(*words),
                FORWARD,
                None,
            )
        return TAKEN

    def refuse(self, error: bytes) -> None:
        self.answer_itself(error)

    def answer_itself(self, reply: bytes) -> None:
        if self.sender.pending_replies == 0:
            self.sender.out.append(reply)
        else:
            self.sender.begin_order().answer(reply)

    def scatter(self, parts: Split) -> None:
        """A command for each slot; their replies are joined."""
        join = self.join_of(parts)
        index = 0
        for number, chunk, count in zip(parts.nodes, parts.chunks, parts.counts, strict=True):
            assert self.sender.nodes is not None
            node = self.sender.nodes[number]
            assert node is not None
            self.sender.send_part(join, node, chunk, index, count)
            index += count

    def join_of(self, parts: Split) -> Join:
        place = self.sender.begin_order().place()
        if b"MGET" in parts.name.upper():
            return ValuesJoin(place, parts.places, len(parts.keys), first_error)
        return SumJoin(place, len(parts.places), first_error)


def first_error(frames: Sequence[bytes]) -> bytes:
    """The first frame that is an error."""
    return next(frame for frame in frames if frame.startswith(b"-"))
