"""One connection to a node of a cluster that carries subscriptions of one client, and nothing else.

The client may use several of them. What the node confirms is not passed on: the client's confirmations are made where
all of its links have confirmed. Frames are handled in the order in which they come. A message is passed on only when
all of it has come, as other nodes send the client something, too.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from proxy.commands.error_texts import SUBSCRIBED_ELSEWHERE, SUBSCRIPTION_REDIRECTED
from proxy.commands.slots import slot_of
from proxy.hotpath.upstream.in_flight import CONFIRM, HIDE, NOTE, InFlightEntry, ReplySink
from proxy.hotpath.upstream.pipeline_listener import CONFIRMATION, MESSAGE, REPLY
from proxy.hotpath.upstream.sender_listener import HeldUpstream, ReplyRecipient
from proxy.rules.verdict import ReplyEdit
from proxy.session.item import Ping
from proxy.session.ports.client_identity import Names
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import Node
from proxy.session.ports.pool_waiter import LOGIN_LOST
from proxy.session.session import Session
from proxy.wire.encode import encode_command

CHANNELS, PATTERNS, SHARD_CHANNELS = KINDS = 0, 1, 2
OPENING = (b"subscribe", b"psubscribe", b"ssubscribe")
CLOSING = (b"unsubscribe", b"punsubscribe", b"sunsubscribe")
_MESSAGES = {b"message": CHANNELS, b"pmessage": PATTERNS, b"smessage": SHARD_CHANNELS}
_CONFIRMED = {word: (kind, True) for kind, word in enumerate(OPENING)} | {
    word: (kind, False) for kind, word in enumerate(CLOSING)
}
"""How errors begin that say that another node has the slot, or none."""
_NOBODY = ReplySink()
"""Receives replies that no client gets."""
_PONG = b"\0"
"""Marks the reply to PING among the frames: none of those begins with it."""
_FENCE = b"\0keyrail:fence"
"""Nobody subscribes to it: that it is confirmed to have ended tells that all before has come."""
_GUARD = b"\0keyrail:guard"
"""The same for SUNSUBSCRIBE: if it is refused, the confirmation that came was the node's own. See ``_guarded``."""
Subscribed: TypeAlias = tuple[set[bytes], set[bytes], set[bytes]]
"""Names by kind: channels, patterns, shard channels."""


def nothing() -> Subscribed:
    """No names of any kind."""
    return set(), set(), set()


@dataclass(slots=True, eq=False)
class Asked:
    """A command that a node has been sent. ``unheard`` are the names that its connection has seen no confirmation of,
    ``pending`` those of which none has been handled."""

    kind: int
    opening: bool
    names: frozenset[bytes]
    unheard: set[bytes]
    pending: set[bytes]


class LinkListener(Protocol):
    """The subscriptions of a client, as its links see them, and waits for nodes to which it has none."""

    @property
    def gone(self) -> bool:
        """Whether the client has left."""

    def message(self, link: "SubscriptionLink", kind: int, name: bytes, channel: bytes, frame: bytes) -> None:
        """A message has come for this channel or pattern."""

    def send_messages(self) -> bool:
        """Send what has come to the client; whether it takes more."""

    def answered(self, link: "SubscriptionLink") -> None:
        """All that one command has asked for is confirmed."""

    def ponged(self) -> None:
        """The reply to a PING is there."""

    def refused(self, link: "SubscriptionLink", asked: Asked, error: bytes) -> None:
        """The node refuses a command."""

    def ended(self, link: "SubscriptionLink", kind: int, name: bytes) -> None:
        """The node has ended a subscription by itself: the slot has left."""

    def out_of_step(self, link: "SubscriptionLink") -> None:
        """What the node has sent cannot be an answer to what it was asked."""

    def lost(self, link: "SubscriptionLink") -> None:
        """The connection is gone."""

    def waiting(self) -> int:
        """Bytes that the client has been sent and has not taken."""

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        """Resume the upstream when the client has caught up."""

    def may_go_on(self, node: Node | None) -> None:
        """There may be a connection to this node, or another map."""

    def unreached(self, node: Node | None, error: bytes = b"") -> None:
        """There is no connection to this node."""

    def must_log_in(self) -> None:
        """Only another login of the client would bring a connection."""


class NodeWaiter:
    """Waits for a connection to a node; without one, for the next look at the cluster."""

    def __init__(self, client: LinkListener, node: Node | None = None) -> None:
        self._client = client
        self._node = node

    @property
    def gone(self) -> bool:
        """Whether nobody waits any more."""
        return self._client.gone

    def arrived(self) -> None:
        """There may be a connection, or another map."""
        self._client.may_go_on(self._node)

    def close(self, cause: str) -> None:
        """None came in time."""
        if cause == LOGIN_LOST:
            self._client.must_log_in()
        else:
            self._client.unreached(self._node)

    def turn_away(self, error: bytes, cause: str) -> None:
        """Redis refuses connections, or there is no room for one."""
        self._client.unreached(self._node, error)


class SubscriptionLink(ReplySink):
    """The link to the node of this connection. ``wanted`` is what the node was asked for last, ``confirmed`` what it
    has confirmed; while ``is_primary``, the notifications that it sends count."""

    def __init__(self, listener: LinkListener, upstream: PrivatePipeline) -> None:
        super().__init__()
        self.upstream = upstream
        self.node: Node = upstream.key.node
        self.user = upstream.key.user
        self.protocol = upstream.key.protocol
        self.edit: ReplyEdit | None = None
        self.is_primary = True
        self.wanted = nothing()
        self.confirmed = nothing()
        self._listener = listener
        self._asked: deque[Asked] = deque()
        self.pings: deque[Ping] = deque()
        self._pieces: list[bytes] = []
        self._fences = 0
        self._recipient: _LinkEnd | None = _LinkEnd(self, listener)

    def begin(self, client: Session, names: Names) -> None:
        """Take over the connection, and give it the names of the client, where it has others."""
        self.upstream.owner = self
        self.upstream.follow(self)
        shown, self.upstream.names = self.upstream.names, names
        wanted = []
        if shown.client != names.client:
            wanted.append([b"CLIENT", b"SETNAME", names.client])
        if shown.library != names.library:
            wanted.append([b"CLIENT", b"SETINFO", b"LIB-NAME", names.library])
        if shown.version != names.version:
            wanted.append([b"CLIENT", b"SETINFO", b"LIB-VER", names.version])
        for argv in wanted:
            client.sender.issue(self.upstream, encode_command(argv), InFlightEntry(self, 1, HIDE, None))

    def release(self) -> None:
        """The connection is lost, or the client has left: nobody is told of it. (The two would be a cycle.)"""
        self._recipient = None

    # What it subscribes to

    def ask(self, client: Session, kind: int, names: Iterable[bytes], *, opening: bool) -> None:
        """Subscribe to those of these names that it is not subscribed to, or the other way round."""
        wanted = self.wanted[kind]
        changed = frozenset(name for name in names if (name in wanted) is not opening)
        if not changed or self.upstream.closed:
            return
        if opening:
            wanted |= changed
        else:
            wanted -= changed
        for together in _by_slot(changed) if kind == SHARD_CHANNELS else (changed,):
            self._send(client, kind, together, opening=opening)
            if kind == SHARD_CHANNELS and not opening:
                self._send(client, CHANNELS, frozenset((_GUARD,)), opening=False)

    def _send(self, client: Session, kind: int, names: frozenset[bytes], *, opening: bool) -> None:
        asked = Asked(kind, opening, names, set(names), set(names))
        self._asked.append(asked)
        raw = encode_command([(OPENING if opening else CLOSING)[kind].upper(), *names])
        client.sender.issue(self.upstream, raw, InFlightEntry(self, len(names), CONFIRM, (asked, None)), commands=1)

    def fence(self, client: Session) -> None:
        """What has been sent to this link up to now may have come over another one, if it is the same for all."""
        self._fences += 1
        self._send(client, CHANNELS, frozenset((_FENCE,)), opening=False)

    @property
    def is_fenced(self) -> bool:
        """Whether such messages may still come."""
        return self._fences > 0

    def ping(self, client: Session, raw: bytes) -> Ping:
        """Send a PING of the client."""
        ping = Ping()
        self.pings.append(ping)
        client.sender.issue(self.upstream, raw, InFlightEntry(_NOBODY, 1, NOTE, self._hear_pong), commands=1)
        return ping

    def _hear_pong(self, frame: bytes) -> None:
        # The messages before it are still to be handled in this round.
        if not self.out:
            self.upstream.dirty.append(self)
        self.out.append(_PONG + frame)

    def is_idle(self) -> bool:
        """Whether it is subscribed to nothing, and no confirmation is pending."""
        return self.upstream.head is None and not self._asked and not any(self.wanted) and not any(self.confirmed)

    # What its pipeline asks about frames

    def hears(self, head: bytes) -> int:
        """The kind of a frame, by its first line and first element: MESSAGE, CONFIRMATION or REPLY."""
        word = head.split(b"\r\n", 3)[2]
        if word in _CONFIRMED:
            return CONFIRMATION
        return MESSAGE if self.protocol == 3 or word in _MESSAGES else REPLY

    def confirms(self, frame: bytes, command: Asked) -> bool:
        """Whether the frame answers this command."""
        word, name = _words(frame, 2)
        if _CONFIRMED[word] != (command.kind, command.opening) or name not in command.unheard:
            return False
        command.unheard.discard(name)
        return True

    def confirm(self, frame: bytes) -> None:
        """It is handled in its place among the others, by ``flush``."""

    # What comes

    def flush(self) -> None:
        """Handle the frames of this round."""
        chunks = list(self.out)
        self.out.clear()
        if not chunks or self._listener.gone:
            return
        scanner = self.upstream.scanner
        unfinished = chunks.pop() if scanner.elements > 0 and self.upstream.destination is self else b""
        for chunk in chunks:
            self._take(b"".join([*self._pieces, chunk]) if self._pieces else chunk)
            self._pieces.clear()
        if unfinished:
            self._pieces.append(unfinished)
        self.full = not self._listener.send_messages()

    def _take(self, frame: bytes) -> None:
        if frame.startswith(_PONG):
            self._listener.send_messages()
            self.pings.popleft().reply = frame[len(_PONG) :]
            self._listener.ponged()
            return
        if frame.startswith(b"-"):
            self._listener.send_messages()
            if self._asked and _GUARD in self._asked[0].names:
                self._guarded(frame)
            elif self._asked and (self._asked[0].kind == SHARD_CHANNELS or not SUBSCRIPTION_REDIRECTED.begin(frame)):
                self._listener.refused(self, self._refused(), frame)
            else:
                self._listener.out_of_step(self)
            return
        word, name, channel = _words(frame, 3)
        kind = _MESSAGES.get(word)
        if kind is not None:
            self._listener.message(self, kind, name, channel if kind == PATTERNS else name, frame)
        elif word in _CONFIRMED:
            self._listener.send_messages()
            self._confirmed(*_CONFIRMED[word], name)

    def _guarded(self, error: bytes) -> None:
        # A slot has left before SUNSUBSCRIBE came: the node has ended the subscriptions by itself, and refuses that.
        if not SUBSCRIBED_ELSEWHERE.begin(error):
            self._asked.popleft()  # the user may not run UNSUBSCRIBE
            self._listener.answered(self)

    def _refused(self) -> Asked:
        asked = self._asked.popleft()
        if asked.opening:
            self.wanted[asked.kind].difference_update(asked.pending)
        return asked

    def _confirmed(self, kind: int, opening: bool, name: bytes) -> None:
        asked = self._asked[0] if self._asked else None
        answers = asked is not None and (asked.kind, asked.opening) == (kind, opening) and name in asked.pending
        if opening:
            self.confirmed[kind].add(name)
        else:
            self.confirmed[kind].discard(name)
        if asked is not None and answers:
            asked.pending.discard(name)
            self._fences -= name == _FENCE
            if not asked.pending:
                self._asked.popleft()
                self._listener.answered(self)
        elif opening:
            self._listener.out_of_step(self)
        elif name in self.wanted[kind]:
            self.wanted[kind].discard(name)
            self._listener.ended(self, kind, name)

    def client(self) -> ReplyRecipient | None:
        """Who is told of what happens to the connection."""
        return self._recipient


class _LinkEnd(ReplyRecipient):
    """A link, as the network side sees it: its loss is not the client's end."""

    def __init__(self, link: SubscriptionLink, listener: LinkListener) -> None:
        self._link = link
        self._listener = listener

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self._listener.gone

    def close(self, cause: str) -> None:
        """The connection is lost, or of no more use."""
        self._listener.lost(self._link)

    def let_go(self) -> bool:
        """The connection is lost: its subscriptions go on elsewhere."""
        self._listener.lost(self._link)
        return True

    def waiting(self) -> int:
        """Bytes that the client has been sent and has not taken."""
        return self._listener.waiting()

    def on_redirect(self, upstream: Any, entry: Any, error: bytes) -> bytes | None:
        """It is handled in its place among the frames."""
        return error

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        """Resume the upstream when the client has caught up."""
        self._listener.hold_upstream(_Held(upstream, self))

    def pause_source(self) -> None:
        """The client's next command waits for confirmations anyway."""

    def resume_source(self) -> None:
        """See ``pause_source``."""


class _Held:
    """A link's upstream that is not read, until its client has caught up."""

    def __init__(self, upstream: HeldUpstream, recipient: ReplyRecipient) -> None:
        self._upstream = upstream
        self._recipient = recipient

    def resume_for(self, client: object) -> None:
        """The client takes more again."""
        self._upstream.resume_for(self._recipient)


def _by_slot(channels: Iterable[bytes]) -> Iterator[frozenset[bytes]]:
    # A node takes shard channels of one slot in one command.
    slots: dict[int, list[bytes]] = {}
    for channel in channels:
        slots.setdefault(slot_of(channel), []).append(channel)
    return map(frozenset, slots.values())


def _words(frame: bytes, count: int) -> list[bytes]:
    # The first elements of an aggregate, as far as they are bulk strings, and empty ones for the rest.
    found: list[bytes] = []
    i = frame.index(b"\n") + 1
    while len(found) < count and frame[i : i + 1] == b"$":
        end = frame.index(b"\n", i) + 1
        size = int(frame[i + 1 : end - 2])
        found.append(frame[end : end + size])
        i = end + size + 2
    return found + [b""] * (count - len(found))
