"""Between upstreams: a client's commands go to a shared one, or to one of its own.

All pending replies of a client come from one upstream, but for what is sent elsewhere on purpose
(``unqueued_commands``). It is *pooled* (``upstream`` is a shared upstream, and the intake forwards plain commands by
itself) or *pinned* (it has an upstream of its own). Before it changes upstreams, all pending replies must have come:
the command waits (``NotYet``), and ``Session.on_idle`` brings it again.

      pooled ──(MULTI, WATCH, SUBSCRIBE, BLPOP, CLIENT ID …)──> pinned
        ^                                                         │
        └──────(the state has ended, no reply is pending)─────────┘
"""

from functools import partial
from typing import NoReturn

from proxy.commands.table import Lane
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.session import reply_mode
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.pool_waiter import LOGIN_LOST, PoolWaiter, UpstreamWait
from proxy.session.progress import NotYet, Step, taken
from proxy.session.session import Session
from proxy.session.state import (
    POOLED,
    Awaited,
    Event,
    Keeping,
    Pinned,
    PooledTransaction,
    Waiting,
    departed,
    pinned,
)
from proxy.wire.encode import encode_command

HELD_SECONDS = 2.0
"""How long a command waits for its node, with a cluster upstream."""


def choose_ready(session: Session) -> bool:
    """Take a shared connection for plain commands, if one takes them now: whether the intake may send them there.
    With a cluster upstream, it takes one for each node when it has a command for that."""
    user = session.key.user
    if session.state is not POOLED or not session.ports.route.pooling or not session.intake.limits.authenticated:
        return False
    if user is not None and not session.ports.capabilities.knows_user(user):
        return False
    if session.ports.nodes is None:
        session.sender.upstream = session.ports.pools.ready(session.key)
        session.intake.direct = session.sender.upstream is not None
    else:
        session.settle_nodes()
        session.intake.direct = True
    return session.intake.direct


def to_shared(session: Session, lane: Lane) -> UpstreamPipeline:
    """The upstream for a command without state."""
    if not session.ports.route.pooling:
        private = to_private(session)
        session.happens(Event.UNKNOWN)
        return private
    current = session.sender.upstream
    state = session.state
    if type(state) is Pinned:
        if session.keeps_pin() or (session.sender.pending_replies > 0 and state.keeping is not Keeping.RETURNING):
            return state.upstream
        drained(session)
        session.unpin()
        current = None
    # A client with pending replies on the slow lane stays there: it never has some on two lanes.
    stays = session.intake.direct == (lane is Lane.FAST) or (
        not session.intake.direct and session.sender.pending_replies > 0
    )
    if stays and current is not None and current.usable and not current.closed:
        return current
    drained(session)
    found = shared_of(session, session.key, lane)
    session.sender.upstream = found
    session.intake.direct = lane is Lane.FAST
    return found


def shared_of(session: Session, key: PoolKey, lane: Lane) -> UpstreamPipeline:
    """A shared connection of this pool."""
    found = session.ports.pools.shared(key, lane)
    if found is None:
        nodes = session.ports.nodes
        waiter = session if nodes is None else _ClientOfNodes(session, nodes, shared=True)
        must_wait_for_upstream(session, session.ports.pools.await_shared(waiter, key, lane))
    session.unreached_since = None
    return found


def to_private(session: Session) -> PrivatePipeline:
    """An upstream of this client's own."""
    state = session.state
    if type(state) is Pinned:
        state.happens(Event.NEEDED)
        session.intake.direct = state.reply_mode == reply_mode.ON
        return state.upstream
    drained(session)
    key = session.place()
    found = session.ports.pools.private(key)
    if found is None:
        must_wait_for_upstream(session, session.ports.pools.await_private(private_waiter(session), key))
    _pin(session, found)
    _introduce(session, found)
    return found


def private_waiter(session: Session) -> PoolWaiter:
    """Who waits for a private connection of this client."""
    nodes = session.ports.nodes
    return session if nodes is None else _ClientOfNodes(session, nodes)


class _ClientOfNodes:
    """A client of a cluster that waits for a private connection to a node, or for a ``shared`` one of any. That none
    comes in time is no reason to close it: by then another node may own the slot, and it looks again, for up to
    ``HELD_SECONDS``. Then it is ``unreachable``."""

    def __init__(self, session: Session, nodes: NodePort, shared: bool = False) -> None:
        self._session = session
        self._nodes = nodes
        self._shared = shared

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self._session.gone

    def arrived(self) -> None:
        """There may be a connection, or another map."""
        self._session.arrived()

    def close(self, cause: str) -> None:
        """None came in time."""
        if cause == LOGIN_LOST:
            self._session.close_when_drained(cause)
            return
        now, since = self._session.ports.route.now(), self._session.unreached_since
        if since is None or now - since > 2 * HELD_SECONDS:  # longer ago than a wait lasts, that was another command's
            since = self._session.unreached_since = now
        if now - since <= HELD_SECONDS:
            self._nodes.await_look(self)
        elif self._session.awaited is Awaited.UPSTREAM:
            self._session.unreached_since, self._session.unreachable = None, True
            self._session.arrived()

    def turn_away(self, error: bytes, cause: str) -> None:
        """Redis refuses connections, or there is no room for a private one."""
        if self._shared:
            self.close(cause)
        else:
            self._session.turn_away(error, cause)


def to_drained_private(session: Session) -> PrivatePipeline:
    """The same for a command behind which nothing could follow the commands before it: once those are answered."""
    drained(session)
    return to_private(session)


def to_settled_private(session: Session) -> PrivatePipeline:
    """The same for a command before which nothing may be unanswered, the names that the connection is given included:
    once all is."""
    upstream = to_drained_private(session)
    if upstream.head is not None:
        session.happens(Event.LOGGED_IN)
        upstream.when_drained(session.arrived)
        must_wait(session, Awaited.REPLIES)
    return upstream


def _pin(session: Session, upstream: PrivatePipeline) -> None:
    session.state = pinned(session.state, upstream)
    session.unreached_since = None
    session.sender.upstream = upstream
    session.settle_nodes()
    upstream.owner = session.sender
    upstream.push_edit = session.push_edit()
    session.intake.simple = session.plain_commands()
    session.intake.direct = True


def _introduce(session: Session, upstream: PrivatePipeline) -> None:
    # Give the upstream the names of this client, where it has others.
    shown, upstream.names = upstream.names, session.names
    if shown.client != session.names.client:
        session.sender.hide(session.on_its_own.upstream, encode_command([b"CLIENT", b"SETNAME", session.names.client]))
    if shown.library != session.names.library:
        session.sender.hide(
            session.on_its_own.upstream, encode_command([b"CLIENT", b"SETINFO", b"LIB-NAME", session.names.library])
        )
    if shown.version != session.names.version:
        session.sender.hide(
            session.on_its_own.upstream, encode_command([b"CLIENT", b"SETINFO", b"LIB-VER", session.names.version])
        )


def move(session: Session, key: PoolKey) -> None:
    """Redis has accepted: from now on this client belongs to another pool."""
    if session.state.upstream is not None:
        session.state.upstream.key = key._replace(node=session.state.upstream.key.node)
        if session.state.subscriptions is not None:
            session.state.subscriptions.protocol = key.protocol
        session.state.upstream.follow(session.state.subscriptions)
    enter(session, key)
    session.adopt()


def enter(session: Session, key: PoolKey) -> None:
    """This client belongs to another pool, and is found there by whoever looks for clients of its user."""
    session.enter(key)
    session.ports.pools.entered(session)


def doubt(session: Session) -> None:
    """What a command has left behind on the private connection, only Redis knows: nobody else gets it. The client keeps
    it, but with a cluster upstream: bound to one node for good, it could not reach the keys of others."""
    if session.ports.nodes is None:
        session.happens(Event.UNKNOWN)
    elif type(session.state) is Pinned:
        session.state.spoiled = True


def wait_until_drained(session: Session) -> None:
    """Read no further until no reply is pending."""
    assert session.sender.pending_replies > 0, "nothing would ever bring the next command on"
    session.wait_for(Awaited.REPLIES)
    session.sender.notify_when_idle = True


def drained(session: Session) -> None:
    """The command is behind all that is pending: until no reply is, it waits."""
    if session.sender.pending_replies > 0:
        must_drain(session)


def must_drain(session: Session) -> NoReturn:
    """The same where it is known that some are pending."""
    wait_until_drained(session)
    raise NotYet


def until_drained(session: Session) -> Step[None]:
    """No reply is pending, for a command in the middle."""
    return taken(partial(drained, session))


def until_private(session: Session) -> Step[PrivatePipeline]:
    """An upstream of the client's own, for a command in the middle."""
    return taken(partial(to_private, session))


def must_wait(session: Session, awaited: Awaited) -> NoReturn:
    """The command waits until somebody calls ``arrived``."""
    session.wait_for(awaited)
    raise NotYet


def must_wait_for_upstream(session: Session, wait: UpstreamWait) -> NoReturn:
    """The same, for an upstream: this wait ends with it."""
    session.wait_for_upstream(wait)
    raise NotYet


def depart(session: Session, holds: bool) -> None:
    """The client has left; ``holds`` says whether its private upstream, if there is one, held state of it."""
    pools, sender = session.ports.pools, session.sender
    state, session.state = session.state, departed(session.state)
    match state:
        case PooledTransaction() if sender.upstream is not None:
            # Only a fault can end a session here. Its transaction must not go on, on an upstream that others share.
            pools.discard(sender.upstream)
        case Waiting(upstreams):
            for each in upstreams:
                pools.discard(each)
        case Pinned(upstream) if not upstream.closed:
            upstream.owner = upstream.push_edit = None
            if state.blocked or upstream.partial is not None:
                pools.discard(upstream)
            elif sender.pending_replies > 0 or holds or state.spoiled:
                pools.close_gracefully(upstream)
            else:
                upstream.follow(None)
                pools.release(upstream)


def release_pin(session: Session) -> None:
    """Give the private upstream back as soon as nothing holds it."""
    state = session.state
    if type(state) is not Pinned:
        return
    if session.sender.pending_replies > 0:
        # Its next command waits for that, or a client that always has pending replies would never go back.
        session.sender.notify_when_idle = True
        if not session.keeps_pin():
            state.happens(Event.ENDED)
            session.intake.direct = False
    elif not session.keeps_pin():
        session.unpin()
