"""Play a recorded transcript to a ledger, in pieces of any size, and hold what comes out against what must.

What must come out is computed from the steps alone, with the tests' own reading of frames. The module under test is a
parameter: the same transcripts are played to ledgers that were broken on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from proxy.session.subscription import Subscriptions
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
    return not transcript.get("listens") and all(step["fate"] not in ("relay", "push") for step in transcript["steps"])


def edited(frame: bytes) -> bytes:
    """What an edit makes of a reply: something of another size that still says what it saw."""
    return b"$%d\r\n<%b>\r\n" % (len(frame) + 2, frame)


class Expectation:
    """What each client must get, from the steps alone."""

    def __init__(self, transcript: Transcript, clients: int) -> None:
        self.out = [b""] * clients
        self.retires = any(step.get("retires") for step in transcript["steps"])
        for number, step in enumerate(transcript["steps"]):
            self.out[number % clients] += self._of(step)

    def _of(self, step: dict[str, Any]) -> bytes:
        fate = step["fate"]
        if fate == "local":
            return str(step["payload"]).encode()
        return b"".join(self._frame(step, frame.encode("latin-1")) for frame in step.get("frames", []))

    def _frame(self, step: dict[str, Any], frame: bytes) -> bytes:
        # A message to oneself comes before the reply from Redis, behind it from Valkey.
        if step.get("pushed") and frame.startswith(b">"):
            return frame
        return (
            self._members(frame, step["members"]) if step["fate"] == "members" else self._one(step["fate"], step, frame)
        )

    def _one(self, fate: str, step: dict[str, Any], reply: bytes) -> bytes:
        if fate == "hide":
            return b""
        if fate == "edit":
            return edited(reply)
        return str(step["payload"]).encode() if fate == "replace" else reply

    def _members(self, reply: bytes, fates: dict[str, str]) -> bytes:
        if not reply.startswith(b"*") or reply in (b"*-1\r\n", b"*0\r\n"):
            return reply
        position = reply.index(b"\n") + 1
        members: list[bytes] = []
        index = 0
        while position < len(reply):
            end = frame_end(reply, position)
            fate = fates.get(str(index), "forward")
            if fate != "hide":
                members.append(self._one(fate, {}, reply[position:end]))
            else:
                self._one(fate, {}, reply[position:end])
            position = end
            index += 1
        return b"*%d\r\n" % len(members) + b"".join(members)


class Play:
    """A ledger with everything queued, and nothing received yet."""

    def __init__(self, module: ModuleType, transcript: Transcript, clients: int = 1) -> None:
        self.module = module
        self.complaints: list[str] = []
        self.peeked: list[bytes] = []
        self.settled = 0
        self.retired = 0
        self.ledger = self._ledger()
        self.clients = [self._client() for _ in range(clients)]
        self.out: list[list[bytes]] = [client.sent for client in self.clients]
        if clients == 1:
            self.ledger.owner = self.clients[0]
        if transcript.get("listens"):
            self.ledger.listener = Subscriptions(transcript["protocol"])
            self.ledger.arrays = transcript["protocol"] == 2
        for number, step in enumerate(transcript["steps"]):
            self._queue(step, self.clients[number % clients])

    def _ledger(self) -> Any:
        play = self

        class Watched(self.module.Ledger):  # type: ignore[misc, name-defined]  # whichever module is under test
            def out_of_step(self) -> None:
                play.complaints.append("out of step")

            def uninvited(self, frame: bytes) -> None:
                play.complaints.append(f"uninvited: {frame!r}")

            def doubt_role(self) -> None:
                self.usable = False
                play.retired += 1

        ledger = Watched()
        ledger.usable = True
        ledger.write = lambda _: None
        ledger.schedule = lambda: None
        return ledger

    def _client(self) -> Any:
        play = self

        class Client(self.module.Creditor):  # type: ignore[misc, name-defined]  # whichever module is under test
            def settled(self) -> None:
                play.settled += 1

        client = Client()
        client.attentive = True
        client.sent = []
        client.write = client.sent.append
        return client

    def _queue(self, step: dict[str, Any], client: Any) -> None:
        fate = step["fate"]
        ledger, module = self.ledger, self.module
        if fate == "forward":
            ledger.submit(client, b"x", step["due"])
        elif fate == "relay":
            ledger.relay = True
        elif fate == "local":
            ledger.owe(client, 1, module.LOCAL, str(step["payload"]).encode())
        elif fate == "replace":
            ledger.owe(client, 1, module.REPLACE, str(step["payload"]).encode())
        elif fate == "edit":
            ledger.owe(client, 1, module.EDIT, edited)
        elif fate == "hide":
            ledger.owe(client, 1, module.HIDE, None)
        elif fate == "peek":
            ledger.owe(client, 1, module.PEEK, self.peeked.append)
        elif fate == "members":
            ledger.owe(client, 1, module.MEMBERS, self._members(step["members"]))
        elif fate == "confirm":
            self._confirm(step, client)
        else:
            assert fate == "push"

    def _members(self, fates: dict[str, str]) -> dict[int, tuple[int, Any]]:
        module = self.module
        codes = {"edit": (module.EDIT, edited), "hide": (module.HIDE, None)}
        return {int(index): codes[fate] for index, fate in fates.items()}

    def _confirm(self, step: dict[str, Any], client: Any) -> None:
        verb = step["send"].split()[0].lower().encode()
        # A bare SUBSCRIBE is one error; only a bare UNSUBSCRIBE has as many confirmations as there are channels.
        due = step["due"] if not step["bare"] or not verb.endswith(b"unsubscribe") else -1
        listener = self.ledger.listener
        self.ledger.owe(client, due, self.module.CONFIRM, (verb, lambda: listener.outstanding(verb)))

    def receive(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self.ledger.receive(piece)
            head = self.ledger.head
            assert head is None or head.fate != self.module.LOCAL, "a local answer waits at the head"

    def check(self, transcript: Transcript, expected: Expectation) -> None:
        """Everything is paid, everybody has what is theirs."""
        assert not self.complaints
        assert [b"".join(sent) for sent in self.out] == expected.out
        assert self.ledger.head is None
        assert self.ledger.tail is None
        assert self.ledger.rest == b""
        assert [client.owed for client in self.clients] == [0] * len(self.clients)
        assert self.ledger.strays == 0 or self.ledger.owner is None
        assert self.retired == (1 if expected.retires else 0)
        steps = transcript["steps"]
        looked = [step["frames"][0].encode("latin-1") for step in steps if step["fate"] == "peek"]
        assert self.peeked == [frame[: frame.index(b"\n") + 1] for frame in looked]
        if any(step["fate"] not in ("relay", "push", "local") for step in steps):
            assert self.settled >= 1


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
