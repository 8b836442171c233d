"""A bug in code about one client, or about figures only, ends no upstream that others share."""

import asyncio
from typing import Any, cast

import pytest

from proxy.hotpath.counting.sampler import Sampler
from proxy.net.downstream.client import ClientConnection, log_fault
from proxy.net.policy.command_times import CommandTimesAtRedis
from proxy.net.policy.evidence_recorder import EvidenceRecorder
from proxy.net.policy.expiries import Expiries
from proxy.net.policy.tracer import Tracer
from proxy.session.ports.client import ServedClient
from proxy.session.ports.open_trace import OpenTrace
from proxy.session.session import Session
from proxy.traffic.redaction import Redaction
from tests.session.given import HOME, Client, FakeRoute, call


class Door(FakeRoute):
    """A route whose figures of large replies fail."""

    report_fault = staticmethod(log_fault)

    def client_connected(self, client: Session) -> None:
        """Nobody asks."""

    def client_closed(self, client: Session, cause: str) -> None:
        """Nobody asks."""

    def observe_large(self, client: ServedClient, key: bytes, size: int, stored: int) -> None:
        raise ValueError("figures")


class Wire(asyncio.Transport):
    """Keep what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits."""

    def pause_reading(self) -> None:
        """Nothing comes."""

    def resume_reading(self) -> None:
        """Nothing comes."""

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def test_a_fault_over_a_large_reply_ends_its_client_alone(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()
    upstream = door.upstream()
    upstream.large = 100
    clients = [ClientConnection(door, door.ports, HOME, door.limits(authenticated=True), "") for _ in range(2)]
    wires = [Wire(), Wire()]
    for client, wire in zip(clients, wires, strict=True):
        client.connection_made(wire)
        client.data_received(call("GET", "k"))
    upstream.taken()
    upstream.receive(b"$500\r\n" + b"v" * 50)
    upstream.receive(b"v" * 450 + b"\r\n$1\r\nx\r\n")
    assert (wires[0].closed, clients[0].session.end_cause) == (True, "internal_error")
    assert (wires[1].sent, wires[1].closed, upstream.complaints) == (b"$1\r\nx\r\n", False, [])
    assert "the client is closed" in caplog.text


def test_what_was_answered_before_a_client_is_closed_still_leaves() -> None:
    door = Door()
    client, wire = ClientConnection(door, door.ports, HOME, door.limits(authenticated=True), ""), Wire()
    client.connection_made(wire)
    client.session.sender.out.append(b"-DENIED\r\n")
    client.session.close("limited")
    assert (wire.sent, wire.closed) == (b"-DENIED\r\n", True)


def test_a_client_that_has_said_all_is_closed_behind_an_answer_that_waited() -> None:
    door = Door(window=1)
    client, wire = ClientConnection(door, door.ports, HOME, door.limits(authenticated=True), ""), Wire()
    client.connection_made(wire)
    client.data_received(call("GET", "k") + call("KEYRAIL", "HELP"))
    assert client.eof_received()
    door.upstream().receive(b"$-1\r\n")
    assert (wire.sent[:5], wire.closed) == (b"$-1\r\n", True)


def test_a_fault_over_figures_stays_with_the_figures(caplog: pytest.LogCaptureFixture) -> None:
    route = FakeRoute(traces=10)
    client = Client(route)
    client.say("GET", "k")
    upstream = route.upstream()
    upstream.taken()
    upstream.answer(b"$-1\r\n")
    (trace,) = route.observed
    assert isinstance(trace, OpenTrace)
    trace.client = cast("ServedClient", None)  # nobody whose figures these could be
    tracer = Tracer(
        Sampler(1),
        Expiries(route.ask, lambda _: False),
        CommandTimesAtRedis(lambda _, answered: None),
        EvidenceRecorder(Redaction()),
    )
    for _ in range(16):
        tracer.observe(trace)
    assert caplog.text.count("missing in the figures") == 16
    assert tracer.latencies()["traces"]["taken"] == 0
