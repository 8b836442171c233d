"""A test bench for an upstream pipeline: the test is its owner and its clients, its module is a parameter."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction, signature
from types import ModuleType
from typing import Any

from proxy.hotpath.upstream import in_flight, outgoing, reply_actions, upstream_pipeline
from proxy.session.subscription import Subscriptions
from tests.hotpath.listening import Listener

Case = Callable[[ModuleType], None]

PIPELINE = ModuleType("upstream_pipeline")
"""The upstream pipeline and what it is made of, as the one module that a case asks for."""
vars(PIPELINE).update(vars(in_flight) | vars(outgoing) | vars(reply_actions) | vars(upstream_pipeline))

OK = b"+OK\r\n"
ONE = b":1\r\n"
ERROR = b"-ERR no\r\n"
PUSH = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
BULK = b"$20\r\n01234567890123456789\r\n"
READONLY = b"-READONLY You can't write against a read only replica.\r\n"


def message(text: bytes, protocol: int = 2) -> bytes:
    return b"%b3\r\n$7\r\nmessage\r\n$1\r\na\r\n$%d\r\n%b\r\n" % (b"*" if protocol == 2 else b">", len(text), text)


def confirmation(verb: bytes, channel: bytes | None, count: int, protocol: int = 2) -> bytes:
    name = b"$%d\r\n%b" % (len(channel), channel) if channel is not None else b"$-1" if protocol == 2 else b"_"
    return b"%b3\r\n$%d\r\n%b\r\n%b\r\n:%d\r\n" % (b"*" if protocol == 2 else b">", len(verb), verb, name, count)


class Bench:
    """An upstream pipeline whose listener is the test."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.listener = Listener()
        self.events = self.listener.events
        self.written: list[bytes] = []
        self.schedules = 0

        self.upstream = module.UpstreamPipeline(self.listener, self._schedule)
        self.upstream.usable = True
        self.upstream.write = self.written.append

    def _schedule(self, flush: Callable[[], object]) -> None:
        assert flush == self.upstream.flush
        self.schedules += 1

    def client(self) -> Any:
        """A sink that keeps what it is sent and told."""
        bench = self

        class Client(self.module.ReplySink):  # type: ignore[misc, name-defined]  # whichever module is under test
            def client(self) -> Client:
                return self

            def on_idle(self) -> None:
                self.notify_when_idle = False
                bench.events.append(("on_idle", self))

            def on_large_reply(self, run: bytes, index: int, size: int, stored: int) -> None:
                bench.events.append(("on_large_reply", run, index, size, stored))

            def on_resume(self) -> None:
                self.stalled = False
                bench.events.append(("on_resume", self))

        client = Client()
        client.sent = []
        client.write = client.sent.append
        return client

    def subscriber(self, protocol: int) -> Any:
        """The sole client of this upstream, that listens."""
        client = self.client()
        self.upstream.owner = client
        self.upstream.follow(Subscriptions(protocol))
        return client

    def confirmed(self, client: Any, verb: bytes, due: int) -> None:
        subscriptions = self.upstream.subscriptions
        self.upstream.enqueue(client, due, self.module.CONFIRM, (verb, lambda: subscriptions.outstanding(verb)))

    def pending_replies(self) -> list[tuple[int, int]]:
        """The entries of the upstream pipeline: action and count of each."""
        found = []
        entry = self.upstream.head
        last = None
        while entry is not None:
            found.append((entry.action, entry.due))
            last = entry
            entry = entry.next
        assert self.upstream.tail is last
        return found


def heard(client: Any) -> bytes:
    """The bytes that have come since the last call."""
    said = b"".join(client.sent)
    client.sent.clear()
    return said


def cases_of(module: ModuleType) -> dict[str, Case]:
    """The functions of a module that take the upstream pipeline's module: each plays one situation to it."""
    found = vars(module).items()
    return {
        name: case
        for name, case in found
        if isfunction(case) and case.__module__ == module.__name__ and [*signature(case).parameters] == ["module"]
    }
