"""An intake whose session is the test, over the nodes of a topology: it sends an MGET of several slots to each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hiredis import Reader

from proxy.commands.slots import SLOTS, slot_of
from proxy.commands.table import STANDARD
from proxy.hotpath.in_flight import FORWARD, NOTE
from proxy.hotpath.intake import TAKEN
from proxy.hotpath.plan import Plan
from proxy.hotpath.reply_order import Segment
from proxy.hotpath.router import SEVERAL_SLOTS, Router
from proxy.hotpath.upstream_pipeline import UpstreamPipeline
from proxy.wire.request import Request
from tests.hotpath.gathering import Client, command_id, pack

NAUGHTY = "FLUSHALL"
REFUSAL = b"-DENIED by the test\r\n"


def owners(nodes: int) -> list[int]:
    """Slots in equal parts, as redis-cli shares them out."""
    return [slot * nodes // SLOTS for slot in range(SLOTS)]


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
            assert words[0] == b"MGET"
            self.scatter(words[1:])
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

    def scatter(self, keys: list[bytes]) -> None:
        """One MGET for each slot; their replies are joined in the order of the keys."""
        order = self.sender.begin_order()
        place = order.segment(None)
        by_slot: dict[int, list[int]] = {}
        for index, key in enumerate(keys):
            by_slot.setdefault(slot_of(key), []).append(index)
        gathered = Gathered(place, len(keys), len(by_slot), order.bring)
        for slot, indexes in by_slot.items():
            assert self.sender.nodes is not None
            node = self.sender.nodes[self.slots[slot]]
            assert node is not None
            self.sender.send_for(place, node, pack(b"MGET", *(keys[i] for i in indexes)), NOTE, gathered.part(indexes))


class Gathered:
    """The parts of one reply: values by the index of their key."""

    def __init__(self, place: Segment, size: int, parts: int, bring: Callable[[Segment, bytes], Any]) -> None:
        self.place = place
        self.values = [b""] * size
        self.parts = parts
        self.bring = bring

    def part(self, indexes: list[int]) -> Callable[[bytes], None]:
        """The listener for the reply about the keys of these indexes."""

        def came(frame: bytes) -> None:
            reader = Reader()
            reader.feed(frame)
            for index, value in zip(indexes, reader.gets(), strict=True):
                self.values[index] = b"$-1\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value)
            self.parts -= 1
            if self.parts == 0:
                self.bring(self.place, b"*%d\r\n" % len(self.values) + b"".join(self.values))

        return came
