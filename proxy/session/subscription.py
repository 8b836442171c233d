"""The subscriptions of a client, and the kinds of frames that reach it.

RESP3 sends confirmations and messages as pushes; RESP2 sends both as arrays, which look like replies.
"""

import hiredis

from proxy.hotpath.upstream.pipeline_listener import CONFIRMATION, MESSAGE, REPLY
from proxy.rules.verdict import ReplyEdit

_MESSAGES = frozenset({b"message", b"pmessage", b"smessage"})
_OPENING = {b"subscribe": 0, b"psubscribe": 1, b"ssubscribe": 2}
_CLOSING = {b"unsubscribe": 0, b"punsubscribe": 1, b"sunsubscribe": 2}


class Subscriptions:
    """The subscriptions of one client, as Redis has confirmed them: channels, patterns, shard channels.

    ``opening`` says that the last command about it was a SUBSCRIBE. ``edit`` changes what comes before the client gets
    it.
    """

    def __init__(self, protocol: int, edit: ReplyEdit | None = None) -> None:
        self.edit = edit
        self.protocol = protocol
        self.sets: tuple[set[bytes], set[bytes], set[bytes]] = (set(), set(), set())
        self.asked = 0
        self.opening = False

    def empty(self) -> bool:
        """Whether nothing is subscribed and nothing that was asked for is outstanding."""
        return self.asked == 0 and not any(self.sets)

    def confines(self) -> bool:
        """Whether Redis lets the client do little else: in RESP2, until the last of them ends."""
        return self.protocol == 2 and not self.empty()

    def hears(self, head: bytes) -> int:
        """The kind of a frame, by its first line and first element: MESSAGE, CONFIRMATION or REPLY."""
        word = head.split(b"\r\n", 3)[2]
        if word in _OPENING or word in _CLOSING:
            return CONFIRMATION
        if self.protocol == 3 or (word in _MESSAGES and any(self.sets)):
            return MESSAGE
        return REPLY

    @staticmethod
    def closes(verb: bytes) -> bool:
        """Whether this is the name, in small letters, of a command that ends subscriptions."""
        return verb in _CLOSING

    def confirms(self, frame: bytes, command: bytes) -> bool:
        """Whether the frame answers this command, which is named in small letters."""
        return frame.split(b"\r\n", 3)[2] == command

    def confirm(self, frame: bytes) -> None:
        """Take over a confirmation of Redis."""
        reader = hiredis.Reader()
        reader.feed(frame)
        word, channel, _ = reader.gets()
        if word in _OPENING:
            self.sets[_OPENING[word]].add(channel)
        elif channel is not None:
            self.sets[_CLOSING[word]].discard(channel)

    def outstanding(self, verb: bytes) -> int:
        """How many confirmations a bare ``verb`` has now."""
        return max(1, len(self.sets[_CLOSING[verb]]))
