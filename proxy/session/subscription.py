"""SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE and their opposites.

One command has as many confirmations as it names channels; a bare UNSUBSCRIBE has one for each channel, or a single
null one. RESP3 sends confirmations and messages as pushes; RESP2 sends both as arrays, which look like replies. So in
RESP2 a subscription begins only when nothing else is owed, and while there is one every array is read as far as its
first word. The client stays pinned until its last subscription ends.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hiredis

from proxy.commands.table import State
from proxy.hotpath.debts import CONFIRM
from proxy.hotpath.intake import TAKEN, WAIT
from proxy.hotpath.ledger import CONFIRMATION, MESSAGE, REPLY
from proxy.session import silence, switching
from proxy.session.item import Item

if TYPE_CHECKING:
    from proxy.session.session import Session

_MESSAGES = frozenset({b"message", b"pmessage", b"smessage", b"invalidate"})
_OPENING = {b"subscribe": 0, b"psubscribe": 1, b"ssubscribe": 2}
_CLOSING = {b"unsubscribe": 0, b"punsubscribe": 1, b"sunsubscribe": 2}


class Subscriptions:
    """What one client is subscribed to, as Redis has confirmed it: channels, patterns, shard channels.

    ``opening`` says that the last command about it was a SUBSCRIBE.
    """

    def __init__(self, protocol: int) -> None:
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
        """What a frame is, by its first line and first element: MESSAGE, CONFIRMATION or REPLY."""
        word = head.split(b"\r\n", 3)[2]
        if word in _OPENING or word in _CLOSING:
            return CONFIRMATION
        if self.protocol == 3 or (word in _MESSAGES and any(self.sets)):
            return MESSAGE
        return REPLY

    def confirms(self, frame: bytes, verb: bytes) -> bool:
        """Whether the frame answers the command ``verb``."""
        return frame.split(b"\r\n", 3)[2] == verb

    def confirm(self, frame: bytes) -> None:
        """Take note of what Redis has confirmed."""
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


def _change(session: "Session", item: Item) -> int:
    argv = item.command.argv
    ledger = switching.to_private(session)
    if ledger is None:
        return WAIT
    verb = item.command.name.lower().encode()
    closing = verb in _CLOSING
    subscriptions = session.subscriptions
    if session.owed > 0 and (subscriptions is None or not (closing or subscriptions.opening)):
        # Nothing could follow the commands before this one once Redis lets the client do little else.
        switching.wait_until_settled(session)
        return WAIT
    if subscriptions is None:
        subscriptions = session.subscriptions = Subscriptions(session.key.protocol)
        ledger.listener = subscriptions
        ledger.arrays = session.key.protocol == 2
    bare = len(argv) == 1
    subscriptions.opening = not closing
    subscriptions.asked += 1
    session.attentive = True
    session.forwarded += 1
    # Redis confirms even while CLIENT REPLY is OFF or SKIP, which the command uses up like any other.
    silent = silence.falls_on(session)
    if bare and not closing and silent:
        ledger.send(session, item.raw)
        return TAKEN
    due = (-1 if closing else 1) if bare else len(argv) - 1
    count: Any = subscriptions.outstanding
    session.owe(item.raw, CONFIRM, (verb, lambda: count(verb)), due)
    return TAKEN


HANDLERS: "dict[State, Callable[[Session, Item], int]]" = {
    State.SUBSCRIBE: _change,
    State.UNSUBSCRIBE: _change,
}
