"""MULTI … EXEC: whole on a shared upstream, or piece by piece on a private one.

redis-py's default pipeline is MULTI … EXEC, so this is the common case: a transaction that has arrived whole, and holds
only commands that need no connection state, travels on a shared upstream as one unbroken slice. Any other pins its
client from MULTI to the reply to EXEC.

What is counted is what was *sent*: a command's position in EXEC's array is how many were queued before it. A refused
command becomes one that Redis itself refuses at queue time, so Redis aborts the transaction; the client gets the
rule's error in its place and EXECABORT at EXEC, and no shadow of the transaction is kept. A reply that a rewrite needs
mapped back is mapped inside EXEC's array.
"""

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState, Lane
from proxy.hotpath.upstream.in_flight import MEMBERS, PEEK
from proxy.rules.context import NO_SLOT
from proxy.rules.verdict import ReplyEdit, chained
from proxy.session import reply_mode
from proxy.session.cluster import node_connections, nodeless_multi, over_nodes
from proxy.session.commands import cached_answers, follow_ups, hidden_commands, sending, switching, write_pauses
from proxy.session.commands.exec_abort import ABORTING_EXEC
from proxy.session.commands.forwarding import forward_unchanged
from proxy.session.commands.handler import Handler
from proxy.session.item import Item, JudgedCommand, LookAhead
from proxy.session.logins import handshake
from proxy.session.ports.node_port import NodePort
from proxy.session.progress import Refused
from proxy.session.session import Session
from proxy.session.state import POOLED, Event, Transaction, begun, ended, refused, watch
from proxy.wire.encode import encode_error
from proxy.wire.request import COMPLETE, Request

ENDS_OR_LEAVES = frozenset(
    {
        ConnectionState.MULTI,
        ConnectionState.EXEC,
        ConnectionState.DISCARD,
        ConnectionState.WATCH,
        ConnectionState.RESET,
        ConnectionState.QUIT,
    }
)

# They change the number or the meaning of later replies, which EXEC's array cannot show.
_IMPOSSIBLE = frozenset(
    {
        ConnectionState.SUBSCRIBE,
        ConnectionState.UNSUBSCRIBE,
        ConnectionState.MONITOR,
        ConnectionState.REPLY,
        ConnectionState.REFUSED,
        ConnectionState.KEYRAIL,
    }
)
_PLAIN = frozenset(
    {
        ConnectionState.POOL,
        ConnectionState.BLOCKING,
        ConnectionState.WAIT,
        ConnectionState.IDLE,
        ConnectionState.UNWATCH,
    }
)


def multi(session: Session, item: Item) -> None:
    """MULTI: look ahead whether the whole transaction is here, and begin it where it can run."""
    if session.state.transaction is not None:
        _within(session, item)
        return
    if len(item.command.argv) != 1:
        forward_unchanged(session, item)
        return
    nodes = session.ports.nodes
    if nodes is not None:
        node_connections.leave_node(session)
    whole = session.state.upstream is None and _arrived_whole(session, item.look_ahead)
    if not whole and session.state.upstream is not None and follow_ups.undecided(session):
        # Redis would queue the follow-ups of the commands before this one.
        switching.drained(session)
    if whole:
        write_pauses.check_unit(session, item.look_ahead)
    if nodes is not None and session.state is POOLED and _placed(session, nodes, item, whole=whole):
        return
    upstream = switching.to_shared(session, Lane.FAST) if whole else switching.to_private(session)
    running = Transaction(session.sender.forwarded + 1, session.key.database, session.state.watching)

    def answered(line: bytes) -> None:
        if not line.startswith(b"-"):
            return
        if running.watching is not None or running.watches_in_vain:
            # Without the transaction its EXEC ends no WATCH either: nobody else may get this connection.
            session.happens(Event.UNKNOWN)
        if session.state.transaction is running:
            _forget_keys(session)
            session.sender.end_unit()
            cached_answers.end_transaction(session)
            session.set_state(ended(session.state, refused(running)))
            session.sender.notify_when_idle = True
            if running.outdated:
                session.adopt()

    session.sender.begin_unit(upstream)
    if whole or session.state.reply_mode != reply_mode.ON:
        sending.submit(session, item.raw)
    else:
        session.sender.forwarded += 1
        session.sender.submit_with_action(item.raw, PEEK, answered)
    session.set_state(begun(session.state, running))
    cached_answers.begin_transaction(session)
    if session.effective_policy.compiled.follows_slots or nodes is not None:
        # Each command is judged, so that none of the keys is missed.
        session.intake.simple = bytes(len(session.intake.simple))


def _placed(session: Session, nodes: NodePort, item: Item, *, whole: bool) -> bool:
    # With a cluster upstream: at the node of the first key of those that stand behind it, or, where it has been
    # answered, of those to come.
    if whole:
        return over_nodes.place_transaction(session, nodes, item)
    nodeless_multi.begin(session)
    return True


def _forget_keys(session: Session) -> None:
    session.slot = NO_SLOT
    session.intake.simple = session.plain_commands()


def _within(session: Session, item: JudgedCommand) -> None:
    # A nested MULTI or WATCH is answered at once, and not queued: later positions don't count it.
    sending.submit(session, item.raw)
    if session.state.transaction is not None:
        session.state.transaction.first += 1
        session.state.transaction.watches_in_vain |= item.command.spec.state is ConnectionState.WATCH


def _arrived_whole(session: Session, look_ahead: LookAhead) -> bool:
    request = Request()
    data, end = look_ahead
    config = session.intake.config
    most = config.window - session.sender.pending_replies - 2
    count = 0
    while count < most and request.scan(data, end, session.intake.limits) == COMPLETE:
        command_id = config.lookup.find(request)
        state = session.effective_policy.table.specs[command_id].state
        if state is ConnectionState.EXEC:
            return True
        if config.pooled[command_id] == 0:
            return False
        end = request.end
        count += 1
    return False


def queue(session: Session, item: Item) -> None:
    """A command between MULTI and EXEC."""
    state = item.command.spec.state
    if state in _IMPOSSIBLE:
        sending.refuse(
            session,
            encode_error(
                f"ERR Keyrail: {item.command.name} inside MULTI is not supported, since its replies cannot be told "
                "apart; send it outside of the transaction"
            ),
        )
        return
    if session.ports.nodes is not None and state not in _PLAIN:
        _check_for_one_node(session, item)
    elif state not in _PLAIN:
        # It acts at EXEC and changes the connection in a way that only Redis knows by then.
        session.happens(Event.UNKNOWN)
        hidden_commands.note_state(session, item.command)
        edit = handshake.queued(session, item)
        if isinstance(edit, bytes):
            sending.refuse(session, edit)
            return
        if edit is not None:
            item.edit = chained(edit, item.edit)
            assert session.state.transaction is not None
            session.state.transaction.switches.queued = True
        if state is ConnectionState.SELECT:
            _switch_database(session, item.command)
    if item.hidden:
        hidden_commands.send(session, item)
    else:
        queue_bytes(session, item.raw, item.edit)


def _check_for_one_node(session: Session, item: Item) -> None:
    # With a cluster upstream: bound to one node by what EXEC will have done, the client could not reach the keys of
    # others.
    state = item.command.spec.state
    if state is ConnectionState.UNKNOWN:
        session.on_its_own.spoiled = True
    elif state not in (ConnectionState.PIN, ConnectionState.ADMIN) and not (
        state is ConnectionState.SELECT and handshake.read_number(item.command.argv) == session.key.database
    ):
        raise Refused(encode_error(f"ERR keyrail: {item.command.name} is about all nodes: not inside MULTI"))


def _switch_database(session: Session, command: Command) -> None:
    # The commands behind this one will be about keys of another database.
    running = session.state.transaction
    assert running is not None
    database = handshake.read_number(command.argv)
    if database is not None:
        running.database = database


def queue_bytes(session: Session, raw: bytes, edit: ReplyEdit | None) -> None:
    """Send a command that Redis will queue, and keep the edit of its member of EXEC's array."""
    running = session.state.transaction
    assert running is not None
    if edit is None:
        sending.submit(session, raw)
        return
    running.actions[session.sender.forwarded - running.first] = (sending.action_of(edit), edit)
    sending.submit(session, raw, hidden_commands.unless_queued(edit))


def _end(session: Session, item: JudgedCommand) -> None:
    running = session.state.transaction
    if running is None:
        # Redis answers an error, and ends a WATCH only after a real EXEC.
        forward_unchanged(session, item)
        return
    if item.command.spec.state is ConnectionState.DISCARD:
        _discard(session, item)
        return
    if running.actions and session.state.reply_mode == reply_mode.ON:
        session.sender.forwarded += 1
        session.sender.submit_with_action(item.raw, MEMBERS, running.actions)
    else:
        sending.submit(session, item.raw)
    _ended(session)
    if running.switches.queued:
        switching.wait_until_drained(session)


def abort(session: Session, error: bytes) -> None:
    """A refused EXEC: nothing is run, and the transaction is over, as Redis ends it for any bad EXEC."""
    sending.refuse(session, error, ABORTING_EXEC)
    _ended(session)


def _ended(session: Session) -> None:
    running = session.state.transaction
    assert running is not None
    session.sender.end_unit()
    cached_answers.end_transaction(session)
    session.set_state(ended(session.state))
    _forget_keys(session)
    if session.deferred and not running.switches.queued:
        follow_ups.catch_up(session)
    switching.release_pin(session)
    if running.outdated:
        session.adopt()


def _discard(session: Session, item: JudgedCommand) -> None:
    if len(item.command.argv) != 1:
        # Redis refuses it for its arity, and the transaction is still open. (A bad EXEC ends it all the same.)
        sending.submit(session, item.raw)
        return
    if session.state.reply_mode != reply_mode.ON:
        sending.submit(session, item.raw)
        _ended(session)
        return
    running = session.state.transaction

    def answered(line: bytes) -> None:
        # A user may be without the command: then the transaction is still open.
        if line.startswith(b"+") and not session.gone and session.state.transaction is running:
            _ended(session)

    session.sender.forwarded += 1
    session.sender.submit_with_action(item.raw, PEEK, answered)
    switching.wait_until_drained(session)


def _forget(session: Session, item: JudgedCommand) -> None:
    # UNWATCH: only Redis's word for it frees the connection. A user may be without the command.
    def answered(line: bytes) -> None:
        if not line.startswith(b"+"):
            session.happens(Event.UNKNOWN)

    if session.state.reply_mode != reply_mode.ON:
        sending.submit(session, item.raw)
        return
    session.sender.forwarded += 1
    session.sender.submit_with_action(item.raw, PEEK, answered)


def _watch(session: Session, item: JudgedCommand) -> None:
    if session.state.transaction is not None:
        _within(session, item)
        return
    switching.to_private(session)
    # Follow-ups of the commands before this one may not be sent while keys are watched.
    switching.drained(session)
    state = session.on_its_own
    before = state.watching
    watching = state.unit = watch(before, item.command.argv[1:])

    def answered(line: bytes) -> None:
        if line.startswith(b"-") and session.state is state and state.unit is watching:
            session.set_state(ended(state, before))
            session.sender.notify_when_idle = True

    if session.state.reply_mode != reply_mode.ON:
        sending.submit(session, item.raw)
    else:
        session.sender.forwarded += 1
        session.sender.submit_with_action(item.raw, PEEK, answered)
    session.set_state(state)


def _unwatch(session: Session, item: JudgedCommand) -> None:
    subscriptions = session.state.subscriptions
    if subscriptions is not None:
        switching.drained(session)
    confined = subscriptions is not None and subscriptions.confines()
    if session.state.upstream is None or len(item.command.argv) != 1 or confined:
        # Redis has nothing to forget, or refuses to.
        forward_unchanged(session, item)
        return
    _forget(session, item)
    session.set_state(ended(session.state))
    session.slot = NO_SLOT
    if session.deferred:
        follow_ups.catch_up(session)
    session.sender.notify_when_idle = True


HANDLERS: dict[ConnectionState, Handler] = {
    ConnectionState.MULTI: multi,
    ConnectionState.EXEC: _end,
    ConnectionState.DISCARD: _end,
    ConnectionState.WATCH: _watch,
    ConnectionState.UNWATCH: _unwatch,
}
