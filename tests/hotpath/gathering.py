"""An intake whose session is the test, on an upstream that notes each run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hiredis import pack_command

from proxy.commands.table import STANDARD, ConnectionState, Lane
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake import TAKEN, WAIT, Intake
from proxy.hotpath.plan.hot_path_config import HotPathConfig
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.hotpath.upstream.sender_listener import HeldUpstream
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.wire.request import Request, RequestLimits
from tests.hotpath.listening import Listener, never

LETTERS = bytes(int(chr(byte).isalnum() or byte == ord(":")) for byte in range(256))
ANY_TTL = b"$2\r\nEX\r\n$3\r\n300\r\n"
OK = b"+OK\r\n"
POOLED = bytes(spec.state is ConnectionState.POOL and spec.lane is Lane.FAST for spec in STANDARD.specs)


def pack(*words: bytes | str) -> bytes:
    packed: bytes = pack_command(words)
    return packed


def command_id(name: str) -> int:
    spec = STANDARD.find(name)
    assert spec is not None
    return spec.id


class Upstream(UpstreamPipeline):
    """An upstream pipeline that notes each run."""

    def __init__(self, log: list[Any]) -> None:
        super().__init__(Listener(), never)
        self.log = log
        self.usable = True
        self.written: list[bytes] = []
        self.write = self.written.append

    def send_run(self, sink: ReplySink, chunk: bytes, count: int) -> None:
        self.log.append(("run", chunk, count))
        super().send_run(sink, chunk, count)


class Client:
    """An intake and a sender whose session is the test.

    `answers` are what it says to each special command in turn, then TAKEN.
    """

    def __init__(self, plan: Plan | None = None, window: int = 1000, large: int = 1 << 20) -> None:
        self.counters = Counters(sets=16)
        config = HotPathConfig(
            Plan(len(STANDARD.specs)) if plan is None else plan,
            STANDARD.lookup,
            STANDARD.keys,
            self.counters,
            Request(),
            POOLED,
            POOLED,
            window,
        )
        self.sender = CommandSender(self, window // 2)
        self.intake = Intake(config, RequestLimits(1 << 20, 1 << 29, large), self.sender, self)
        self.log: list[Any] = []
        self.fake_upstream = Upstream(self.log)
        self.sender.upstream = self.fake_upstream
        self.intake.direct = True
        self.sender.write = lambda _: None
        self.answers: list[int] = []
        self.paused = False
        self.sizes: list[int] = []

    def answer(self) -> int:
        return self.answers.pop(0) if self.answers else TAKEN

    def handle(self, command_id: int, data: bytes, request: Request) -> int:
        answer = self.answer()
        if answer == WAIT:
            self.intake.wait()
        else:
            self.log.append(("special", data[request.start : request.end]))
        return answer

    def refuse(self, error: bytes) -> None:
        self.log.append(("refused", error))

    def handle_inline(self, words: list[bytes], size: int) -> int:
        answer = self.answer()
        if answer == WAIT:
            self.intake.wait()
        else:
            self.log.append(("inline", words, size))
        return answer

    def handle_large(self, data: bytes, request: Request) -> int:
        self.log.append(("large", request.arguments(), request.bulk))
        self.intake.unfinished = Stream(self, request.position - request.start + request.bulk + 2)
        self.intake.unfinished.receive(data[request.start :])
        return TAKEN

    def malformed(self, request: Request) -> None:
        self.log.append(("malformed", request.error))

    def connect(self, node: int) -> UpstreamPipeline | None:
        return None

    def assembling(self, size: int) -> None:
        self.sizes.append(size)

    def is_paused(self) -> bool:
        return self.paused

    def hold(self) -> None:
        self.paused = True

    def drained(self) -> None:
        self.paused = False

    def has_left(self) -> bool:
        return False

    def choose_upstream(self) -> None:
        """It has one, or none is to be had."""

    def refused(self, command_id: int, request: Request) -> None:
        """Nobody wants to know."""

    def empty(self) -> None:
        """Nothing becomes of it."""

    def on_idle(self) -> None:
        """Nothing waits for that."""

    def on_resume(self) -> None:
        self.intake.resume()

    def on_advance(self) -> None:
        """Nothing is held."""

    def begin_reads(self) -> None:
        """There are no replicas."""

    def on_large_reply(self, run: bytes, index: int, size: int, stored: int) -> None:
        """Nobody wants to know."""

    @property
    def blocked(self) -> bool:
        return False

    @property
    def gone(self) -> bool:
        return self.sender.gone

    def close(self, cause: str) -> None:
        raise AssertionError(cause)

    def let_go(self) -> bool:
        return False

    def waiting(self) -> int:
        return 0

    def on_redirect(self, upstream: object, entry: object, error: bytes) -> bytes | None:
        return error

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        """It takes everything."""

    def pause_source(self) -> None:
        self.paused = True

    def resume_source(self) -> None:
        self.paused = False

    def pay(self, replies: int) -> None:
        self.fake_upstream.receive(OK * replies)

    def go_on(self) -> None:
        self.intake.go_on()
        self.intake.resume()


class Stream:
    """Takes the bytes of one large request, and gives back what follows."""

    def __init__(self, client: Client, size: int) -> None:
        self.client = client
        self.left = size
        self.taken = b""

    def receive(self, data: bytes) -> None:
        self.taken += data[: self.left]
        following = data[self.left :]
        self.left -= min(len(data), self.left)
        if self.left == 0:
            self.client.intake.unfinished = None
            self.client.log.append(("streamed", self.taken))
            if following:
                self.client.intake.receive(following)


def cuts(data: bytes) -> Iterator[list[bytes]]:
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for i in range(1, len(data)):
        yield [data[:i], data[i:]]


def joined(log: list[Any]) -> list[Any]:
    """The log with neighbouring runs made one: how reads cut them does not matter."""
    result: list[Any] = []
    for event in log:
        if event[0] == "run" and result and result[-1][0] == "run":
            _, chunk, count = result.pop()
            result.append(("run", chunk + event[1], count + event[2]))
        else:
            result.append(event)
    return result


def outcome(client: Client, pieces: list[bytes]) -> list[Any]:
    """The outcome of bytes that come in pieces, when every reply comes as soon as the client is held."""
    for piece in pieces:
        client.intake.receive(piece)
        while client.sender.stalled:
            client.pay(client.sender.pending_replies)
    return joined(client.log)
