"""Messages on their way to a client that gets replies from other connections meanwhile: none inside a reply. A
tenant's lose its prefix here."""

from collections import deque

from proxy.hotpath.upstream.in_flight import InFlightEntry
from proxy.session.policy import tenancy
from proxy.session.session import Session

_MOST_BEHIND = 1 << 20
"""Bytes of messages that wait for the end of a reply, beyond which no more are read."""


class InterjectedMessages:
    """The messages of one client. ``_waiting`` are those behind the reply that is on its way, with their bytes."""

    def __init__(self, client: Session) -> None:
        self._client = client
        self._edit = tenancy.message_edit(client.tenant)
        self._ready: list[bytes] = []
        self._waiting: deque[tuple[InFlightEntry, int]] = deque()
        self._behind = 0

    def add(self, frame: bytes, protocol: int) -> None:
        """One more, in this protocol. What sets messages in RESP2 and RESP3 apart is their first byte."""
        wanted = self._client.key.protocol
        told = frame if self._edit is None else self._edit(frame)
        if told:
            self._ready.append(told if protocol == wanted else (b"*" if wanted == 2 else b">") + told[1:])

    def send(self) -> bool:
        """Send them: now, or behind the reply that is on its way. Whether the client takes more."""
        sender = self._client.sender
        # While commands are sent again, nobody knows which reply is on its way.
        if self._ready and not sender.redirecting:
            self._forget_sent()
            frames = b"".join(self._ready)
            self._ready.clear()
            entry = sender.interject(frames, self._waiting[-1][0] if self._waiting else None)
            if entry is not None:
                self._waiting.append((entry, len(frames)))
                self._behind += len(frames)
        return not sender.full and self._behind + sum(map(len, self._ready)) <= _MOST_BEHIND

    def advance(self) -> None:
        """Replies of the client have come to their end."""
        self._forget_sent()
        self.send()

    def _forget_sent(self) -> None:
        while self._waiting and self._waiting[0][0].due == 0:
            self._behind -= self._waiting.popleft()[1]
