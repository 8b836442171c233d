"""The functions of `proxy.cluster` put together, in the simplest way that serves clients: one thread for each of them,
and one command at a time. It shows what the replies mean to real clients, without any of Keyrail's sessions.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.fan_out import fan_out, goes_to_several
from proxy.cluster.hidden_nodes import Shown, hidden, hidden_redirect
from proxy.cluster.own_answers import own_answer
from proxy.cluster.scan_walk import Asked, scan
from proxy.cluster.shares import Advertised, shared_out
from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination
from proxy.commands.rows import ROWS
from proxy.commands.slots import SLOTS, slot_of
from proxy.commands.table import STANDARD
from tests.cluster.nodes import RealCluster
from tests.engines import free_port
from tests.resp import FrameReader, decode


class Listener(socketserver.ThreadingTCPServer):
    """One address before a cluster: as one plain Redis, or as one address of a cluster of them."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, cluster: RealCluster, owners: Sequence[int], port: int, presented: Presented | None) -> None:
        self.nodes = cluster.primaries()
        self.ids = [cluster.id(node) for node in self.nodes]
        self.owners = owners
        self.presented = presented
        self.valkey = cluster.kind.is_valkey
        self.shown = Shown("127.0.0.1", port, presented is None)
        share = None if presented is None else presented.own_share()
        self.numbers = range(len(self.nodes)) if share is None else share.nodes
        super().__init__(("127.0.0.1", port), Client)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class Client(socketserver.BaseRequestHandler):
    """One client: a connection to each node, each with the client's protocol."""

    def handle(self) -> None:
        assert isinstance(self.server, Listener)
        self.listener = self.server
        self.protocol = 2
        self.wires = [node.wire() for node in self.listener.nodes]
        reader = FrameReader()
        try:
            while data := self.request.recv(65536):
                reader.feed(data)
                while (frame := reader.frame()) is not None:
                    words: Any = decode(frame)
                    self.request.sendall(self.answer(Command(STANDARD, words)))
        finally:
            for wire in self.wires:
                wire.close()

    def answer(self, command: Command) -> bytes:
        listener, argv = self.listener, command.argv
        own = own_answer(command, listener.presented, self.protocol, valkey=listener.valkey)
        if own is not None:
            return own
        if command.spec.name == "HELLO" and len(argv) > 1:
            self.protocol = int(argv[1])
        destination = command.spec.over_nodes.destination
        if destination is Destination.WALK:
            return self.walk(argv)
        if goes_to_several(command):
            names = [f"n{number + 1}" for number in listener.numbers]
            requests, joined = fan_out(command, names, self.protocol, 0.5)
            wires = [self.wires[number] for number in listener.numbers]
            return joined([wire.ask(*each) for wire, asked in zip(wires, requests, strict=True) for each in asked])
        if destination is Destination.CONNECTION:
            frame, *_ = [wire.ask(*argv) for wire in self.wires]
        else:
            keys = command.keys
            frame = self.wires[listener.owners[slot_of(keys[0].name)] if keys else 0].ask(*argv)
        signs = ROWS[command.spec.name].shows_nodes if command.spec.name in ROWS else None
        return hidden_redirect(frame if signs is None else hidden(signs, listener.shown, frame))

    def walk(self, argv: Sequence[bytes]) -> bytes:
        listener = self.listener
        mine = [listener.ids[number] for number in listener.numbers]
        rounds = scan(argv, mine, 0, set(listener.ids) - set(mine))

        def ask(asked: Sequence[Asked]) -> list[bytes]:
            return [self.wires[listener.numbers[each.node]].ask(*each.argv) for each in asked]

        try:
            asked = next(rounds)
            while True:
                asked = rounds.send(ask(asked))
        except StopIteration as end:
            return bytes(end.value)


def owners_of(cluster: RealCluster) -> list[int]:
    """The number of the primary of each slot."""
    numbers = {node.port: number for number, node in enumerate(cluster.primaries())}
    owners = [-1] * SLOTS
    ranges: Any = cluster.nodes[0].do("CLUSTER", "SLOTS")
    for first, last, shown, *_ in ranges:
        owners[first : last + 1] = [numbers[shown[1]]] * (last + 1 - first)
    return owners


@contextmanager
def served(cluster: RealCluster, addresses: int) -> Iterator[list[Listener]]:
    """Listeners before this cluster: one plain Redis with no address to advertise, else a cluster of so many."""
    owners = owners_of(cluster)
    advertised = [Advertised("127.0.0.1", free_port()) for _ in range(max(1, addresses))]
    shares = shared_out(owners, advertised)
    started = [
        Listener(cluster, owners, each.port, Presented(each, shares) if addresses else None) for each in advertised
    ]
    try:
        yield started
    finally:
        for each in started:
            each.shutdown()
            each.server_close()
