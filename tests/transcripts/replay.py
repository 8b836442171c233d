"""Play a recorded transcript to an upstream pipeline, in pieces of any size, and compare its output with the expected
one.

The expected output is computed from the steps alone, with the tests' own reader of frames. The module under test is a
parameter: the same transcripts are played to pipelines that are broken on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from proxy.session.subscription import Subscriptions
from tests.hotpath.listening import Listener, never
from tests.resp import frame_end

Transcript = dict[str, Any]


def load() -> dict[str, Transcript]:
    """Every recorded transcript, by engine and name."""
    found: dict[str, Transcript] = {}
    for file in sorted(Path(__file__).parent.glob("*.json")):
        recorded = json.loads(file.read_text())
        for transcript in recorded["transcripts"]:
            found[f"{recorded['engine']}: {transcript['name']}"] = transcript
    return found


def received(transcript: Transcript) -> list[bytes]:
    """The frames that the engine sent, in order."""
    return [frame.encode("latin-1") for step in transcript["steps"] for frame in step.get("frames", [])]


def shareable(transcript: Transcript) -> bool:
    """Whether it can run on a shared upstream: it sets nothing that belongs to one client."""
    return not transcript.get("listens") and all(
        step["action"] not in ("relay", "push") for step in transcript["steps"]
    )


def edited(frame: bytes) -> bytes:
    """A reply after an edit: of another size, and it still says what the edit saw."""
    return b"$%d\r\n<%b>\r\n" % (len(frame) + 2, frame)


class Expectation:
    """The bytes that each client must get, from the steps alone."""

    def __init__(self, transcript: Transcript, clients: int) -> None:
        self.out = [b""] * clients
        self.retires = any(step.get("retires") for step in transcript["steps"])
        for number, step in enumerate(transcript["steps"]):
            self.out[number % clients] += self._of(step)

    def _of(self, step: dict[str, Any]) -> bytes:
        action = step["action"]
        if action == "local":
            return str(step["payload"]).encode()
        return b"".join(self._frame(step, frame.encode("latin-1")) for frame in step.get("frames", []))

    def _frame(self, step: dict[str, Any], frame: bytes) -> bytes:
        while frame.startswith(b"|"):  # nobody gets attributes: an array of as many elements ends where one does
            count = int(frame[1 : frame.index(b"\r")])
            head, rest = b"*%d" % (2 * count), frame[frame.index(b"\r") :]
            frame = rest[frame_end(head + rest, 0) - len(head) :]
        # A message to oneself comes before the reply from Redis, behind it from Valkey.
        if step.get("pushed") and frame.startswith(b">"):
            return frame
        return (
            self._members(frame, step["members"])
            if step["action"] == "members"
            else self._one(step["action"], step, frame)
        )

    def _one(self, action: str, step: dict[str, Any], reply: bytes) -> bytes:
        if action == "hide":
            return b""
        if action == "edit":
            return edited(reply)
        return str(step["payload"]).encode() if action == "replace" else reply

    def _members(self, reply: bytes, actions: dict[str, str]) -> bytes:
        if not reply.startswith(b"*") or reply in (b"*-1\r\n", b"*0\r\n"):
            return reply
        position = reply.index(b"\n") + 1
        members: list[bytes] = []
        index = 0
        while position < len(reply):
            end = frame_end(reply, position)
            action = actions.get(str(index), "forward")
            if action != "hide":
                members.append(self._one(action, {}, reply[position:end]))
            else:
                self._one(action, {}, reply[position:end])
            position = end
            index += 1
        return b"*%d\r\n" % len(members) + b"".join(members)


class Play:
    """An upstream pipeline with everything queued, and nothing received yet."""

    def __init__(self, module: ModuleType, transcript: Transcript, clients: int = 1) -> None:
        self.module = module
        self.listener = Listener()
        self.peeked: list[bytes] = []
        self.on_idle = 0
        self.upstream = self._upstream()
        self.clients = [self._client() for _ in range(clients)]
        self.out: list[list[bytes]] = [client.sent for client in self.clients]
        if clients == 1:
            self.upstream.owner = self.clients[0]
        if transcript.get("listens"):
            self.upstream.follow(Subscriptions(transcript["protocol"]))
        for number, step in enumerate(transcript["steps"]):
            self._queue(step, self.clients[number % clients])

    def _upstream(self) -> Any:
        upstream = self.module.UpstreamPipeline(self.listener, never)
        upstream.usable = True
        upstream.write = lambda _: None
        return upstream

    def _client(self) -> Any:
        play = self

        class Client(self.module.ReplySink):  # type: ignore[misc, name-defined]  # whichever module is under test
            def on_idle(self) -> None:
                play.on_idle += 1

        client = Client()
        client.notify_when_idle = True
        client.sent = []
        client.write = client.sent.append
        return client

    def _queue(self, step: dict[str, Any], client: Any) -> None:
        action = step["action"]
        upstream, module = self.upstream, self.module
        if action == "forward":
            upstream.send_run(client, b"x", step["due"])
        elif action == "relay":
            upstream.relay = True
        elif action == "local":
            upstream.enqueue(client, 1, module.LOCAL, str(step["payload"]).encode())
        elif action == "replace":
            upstream.enqueue(client, 1, module.REPLACE, str(step["payload"]).encode())
        elif action == "edit":
            upstream.enqueue(client, 1, module.EDIT, edited)
        elif action == "hide":
            upstream.enqueue(client, 1, module.HIDE, None)
        elif action == "peek":
            upstream.enqueue(client, 1, module.PEEK, self.peeked.append)
        elif action == "members":
            upstream.enqueue(client, 1, module.MEMBERS, self._members(step["members"]))
        elif action == "confirm":
            self._confirm(step, client)
        else:
            assert action == "push"

    def _members(self, actions: dict[str, str]) -> dict[int, tuple[int, Any]]:
        module = self.module
        codes = {"edit": (module.EDIT, edited), "hide": (module.HIDE, None)}
        return {int(index): codes[action] for index, action in actions.items()}

    def _confirm(self, step: dict[str, Any], client: Any) -> None:
        verb = step["send"].split()[0].lower().encode()
        # A bare SUBSCRIBE is one error; only a bare UNSUBSCRIBE has as many confirmations as there are channels.
        due = step["due"] if not step["bare"] or not verb.endswith(b"unsubscribe") else -1
        subscriptions = self.upstream.subscriptions
        self.upstream.enqueue(client, due, self.module.CONFIRM, (verb, lambda: subscriptions.outstanding(verb)))

    def receive(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self.upstream.receive(piece)
            head = self.upstream.head
            assert head is None or head.action != self.module.LOCAL, "a local answer waits at the head"

    def check(self, transcript: Transcript, expected: Expectation) -> None:
        """Everything is paid, everybody has what is theirs."""
        told = [event for event in self.listener.events if event[0] != "command_refused"]
        assert told == ["doubt_role"] * expected.retires
        assert [b"".join(sent) for sent in self.out] == expected.out
        assert self.upstream.head is None
        assert self.upstream.tail is None
        assert self.upstream.rest == b""
        assert [client.pending_replies for client in self.clients] == [0] * len(self.clients)
        assert self.upstream.strays == 0 or self.upstream.owner is None
        steps = transcript["steps"]
        looked = [step["frames"][0].encode("latin-1") for step in steps if step["action"] == "peek"]
        assert self.peeked == [frame[: frame.index(b"\n") + 1] for frame in looked]
        if any(step["action"] not in ("relay", "push", "local") for step in steps):
            assert self.on_idle >= 1


def halves(data: bytes) -> Iterator[list[bytes]]:
    """The data in two pieces, at every place."""
    return ([data[:i], data[i:]] for i in range(1, len(data)))


def ways(transcript: Transcript, every: int = 1) -> Iterator[list[bytes]]:
    """Whole, frame by frame, byte by byte, in pieces of two sizes, and in two at every place (or at each so many)."""
    data = b"".join(received(transcript))
    yield [data]
    yield received(transcript)
    yield [data[i : i + 1] for i in range(len(data))]
    for size in (2, 7):
        yield [data[i : i + size] for i in range(0, len(data), size)]
    for number, two in enumerate(halves(data)):
        if number % every == 0:
            yield two


def play(
    module: ModuleType,
    transcript: Transcript,
    clients: int = 1,
    pieces: Callable[[Transcript], Iterator[list[bytes]]] = ways,
) -> None:
    """Play it in every way. Raises AssertionError where anything but the expected comes out."""
    expected = Expectation(transcript, clients)
    for way in pieces(transcript):
        attempt = Play(module, transcript, clients)
        attempt.receive(way)
        attempt.check(transcript, expected)
