"""MULTI with a cluster upstream: a transaction belongs to the node of its keys, which no command has named yet.

Keyrail answers MULTI by itself. The first command with a key takes the transaction to that key's node, on a private
connection: MULTI goes in front of it, and its reply is dropped. Commands without keys before it are answered QUEUED and
wait, up to ``MOST_KEPT`` of them and ``MOST_KEPT_BYTES``. Without any key, EXEC takes what waits to any primary
for which the client's address stands.
"""

from proxy.cluster.own_answers import has_its_arguments
from proxy.commands.command import Command
from proxy.commands.table import ConnectionState, Lane
from proxy.hotpath.upstream.in_flight import EDIT, InFlightEntry
from proxy.session.cluster.node_connections import CLUSTERDOWN, any_node, unserved, wait_for_node
from proxy.session.commands import cached_answers, sending, switching
from proxy.session.commands.exec_abort import ABORTING_COMMAND
from proxy.session.item import Item
from proxy.session.ports.node_port import NodePort
from proxy.session.progress import Refused
from proxy.session.session import Session
from proxy.session.state import NodelessMulti, Transaction, ended, nodeless
from proxy.wire.encode import OK, encode_command

MOST_KEPT = 64
MOST_KEPT_BYTES = 1 << 20
_MULTI = encode_command([b"MULTI"])
_QUEUED = b"+QUEUED\r\n"
_NOTHING = b"*0\r\n"
_ABORTED = b"-EXECABORT Transaction discarded because of previous errors.\r\n"
_BAD_EXEC = b"-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"
_BECAUSE = b"-EXECABORT Transaction discarded because of: "
_KEPT = frozenset(
    {
        ConnectionState.POOL,
        ConnectionState.BLOCKING,
        ConnectionState.PIN,
        ConnectionState.ADMIN,
        ConnectionState.UNWATCH,
        ConnectionState.WAIT,
    }
)
"""Inside MULTI, with a cluster upstream, no command of these leaves anything behind on its connection."""
LEAVES = frozenset({ConnectionState.RESET, ConnectionState.QUIT})
"""Commands that end the transaction without a word to any node."""


def begin(session: Session, *, spoiled: bool = False) -> None:
    """Answer MULTI. If it is ``spoiled``, nothing of the transaction runs."""
    state = nodeless(session.state, Transaction(0, session.key.database))
    state.spoiled = spoiled
    session.state = state
    session.settle_nodes()
    session.intake.simple = bytes(len(session.intake.simple))
    cached_answers.begin_transaction(session)
    sending.answer(session, OK)


def unreachable(session: Session, item: Item) -> None:
    """No node could be reached in time for the command: the client gets an error, and stays."""
    if type(session.state) is NodelessMulti and item.command.spec.state is ConnectionState.EXEC:
        _end(session, _BECAUSE + unserved(session, (session.node,))[1:])
    else:
        sending.refuse(session, unserved(session, (session.node,)))


def meet(session: Session, nodes: NodePort, item: Item, state: NodelessMulti) -> bool:
    """Whether the next command is answered here; one that goes on takes the transaction to its node, or ends it."""
    spec = item.command.spec
    if spec.state in LEAVES:
        return False
    answer = _answer(item.command, state)
    if answer:
        _end(session, answer)
        return True
    if spec.state is not ConnectionState.EXEC and _may_be_kept(session, item, state):
        state.kept.append((item.raw, item.edit))
        state.writes = state.writes or (spec.may_replicate and not item.reads)
        sending.answer(session, _QUEUED)
        return True
    try:
        _place(session, nodes, item, state)
    except Refused as refused:
        if spec.state is not ConnectionState.EXEC:
            raise
        _end(session, refused.error)
        return True
    return False


def _answer(command: Command, state: NodelessMulti) -> bytes:
    # The reply to what ends the transaction without a word to any node; empty for all else.
    if command.spec.state is ConnectionState.DISCARD and has_its_arguments(command):
        return OK
    if command.spec.state is not ConnectionState.EXEC:
        return b""
    if state.spoiled:
        return _ABORTED
    if not has_its_arguments(command):
        return _BAD_EXEC
    return b"" if state.kept else _NOTHING


def _may_be_kept(session: Session, item: Item, state: NodelessMulti) -> bool:
    command = item.command
    plain = command.spec.state in _KEPT and not item.hidden and has_its_arguments(command)
    if not plain or not command.has_no_keys or session.node is not None:
        return False
    size = sum(len(raw) for raw, _ in state.kept) + len(item.raw)
    return len(state.kept) < MOST_KEPT and size < MOST_KEPT_BYTES


def _end(session: Session, reply: bytes) -> None:
    sending.answer(session, reply)
    transaction = session.state.transaction
    cached_answers.end_transaction(session)
    session.state = ended(session.state)
    session.settle_nodes()
    session.intake.simple = session.plain_commands()
    if transaction is not None and transaction.outdated:
        session.adopt()


def _place(session: Session, nodes: NodePort, item: Item, state: NodelessMulti) -> None:
    if session.node is None and not item.command.known_keys:
        session.node = any_node(session, nodes)
    if session.node is None and state.spoiled:
        raise Refused(CLUSTERDOWN)
    if session.node is None:
        ends = item.command.spec.state is ConnectionState.EXEC
        error = _BECAUSE + CLUSTERDOWN[1:] if ends else CLUSTERDOWN
        wait_for_node(session, nodes, item, None, Lane.FAST, error)
    upstream = switching.to_private(session)
    running = state.transaction
    running.first = session.sender.forwarded
    session.set_state(session.state)
    sender = session.sender
    sender.issue(upstream, _MULTI, InFlightEntry(sender, 1, EDIT, lambda frame: _begun(session, frame)))
    for raw, edit in state.kept:
        if edit is not None:
            running.actions[sender.forwarded - running.first] = (EDIT, edit)
        sender.forwarded += 1
        sender.hide(upstream, raw)
    if state.writes:
        sender.note_write(upstream)
    if state.spoiled:
        sender.hide(upstream, ABORTING_COMMAND)


def _begun(session: Session, frame: bytes) -> bytes:
    if frame.startswith(b"-"):
        # The client counts on a transaction, and each command would run by itself.
        session.close("multi_refused")
    return b""
