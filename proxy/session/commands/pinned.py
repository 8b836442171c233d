"""Commands that need an upstream of their client's own.

Some give it back with their reply (BLPOP and its relatives, WAIT, a command that turns out not to exist), the others
hold it for the rest of the session: what they set, only Redis knows.
"""

from proxy.cluster.own_answers import has_its_arguments
from proxy.commands.command import Command
from proxy.commands.error_texts import COMMAND_UNKNOWN, REPLY_MODE_UNKNOWN, SAYS_NOTHING
from proxy.commands.table import NOTIFICATIONS, ConnectionState, Table
from proxy.commands.words import word_of
from proxy.hotpath.upstream.in_flight import EDIT, PEEK, InFlightEntry
from proxy.session import reply_mode
from proxy.session.commands import client_reply, hidden_commands, keyrail_command, sending, switching
from proxy.session.commands.forwarding import forward, forward_unchanged
from proxy.session.commands.handler import Handler
from proxy.session.item import Item, JudgedCommand
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.ports import CommandName
from proxy.session.progress import Refused, Step
from proxy.session.session import Session
from proxy.session.state import Awaited, Event, Keeping, Pinned
from proxy.wire.encode import encode_command, encode_error
from proxy.wire.request import Request

_REPLICATION_REFUSED = encode_error(
    "DENIED keyrail: a replication link would pass every rule by; connect the replica to Redis itself"
)
WAIT_REFUSED = encode_error(
    "ERR Keyrail: WAIT can't be answered truthfully for a user without SPUBLISH; use pooling off for this application"
)
NO_NAME = encode_error("ERR unknown command: there is a NUL in its name")
_REPLY_IN_NO_MODE = encode_command([b"CLIENT", b"REPLY", b"?"])
_SILENCES = {b"ON": reply_mode.ON, b"OFF": reply_mode.OFF, b"SKIP": reply_mode.SKIP}
"""Errors that come before Redis looks at the command's name, or in place of running it."""
_NOTIFIES = tuple(NOTIFICATIONS.encode().split(b"|"))
_LONGEST_NAME = 128
_PING = encode_command([b"PING"])
WAIT_CHANNEL = b"keyrail:wait"
_SHARD_MESSAGE = encode_command([b"SPUBLISH", WAIT_CHANNEL, b""])


def may_block(session: Session, command: Command) -> bool:
    """Whether Redis may hold the reply back until something happens: never inside MULTI."""
    if command.spec.state is not ConnectionState.BLOCKING or session.state.transaction is not None:
        return False
    return session.effective_policy.table.keys.blocks(command.spec.id, Request.from_argv(command.argv))


def _blocking(session: Session, item: Item) -> None:
    if not may_block(session, item.command):
        forward(session, item)
        return
    switching.to_drained_private(session)
    session.sender.notify_when_idle = True
    if not item.hidden:
        submit_blocking(session, item)
    elif hidden_commands.send(session, item):
        session.on_its_own.blocked += 1
    else:
        switching.release_pin(session)


def submit_blocking(session: Session, item: Item) -> None:
    """Send a command that may block."""
    # Until its reply comes, the client counts as blocked; where none is listened for, until no reply is pending.
    state = session.on_its_own
    state.blocked += 1
    if session.state.reply_mode != reply_mode.ON or item.edit is not None:
        sending.submit(session, item.raw, item.edit)
        return

    def answered(line: bytes) -> None:
        state.blocked -= 1

    session.sender.forwarded += 1
    session.sender.submit_with_action(item.raw, PEEK, answered)


def _wait(session: Session, item: Item) -> Step[None] | None:
    # WAIT speaks of the writes of its own connection: hidden commands move this one's offset up to what the server has
    # written by now, which covers all writes of this client that have been answered. In Redis any command does; in
    # Valkey only one that is propagated, and a message on a shard channel that nobody knows is one and changes nothing.
    upstream = switching.to_private(session)
    if session.state.subscriptions is not None:
        switching.drained(session)
    if has_its_arguments(item.command) and session.state.reply_mode == reply_mode.ON and not _confined(session):
        return _wait_covered(session, item, upstream)
    session.sender.notify_when_idle = True
    submit_blocking(session, item)
    return None


def _wait_covered(session: Session, item: Item, upstream: PrivatePipeline) -> Step[None]:
    covered, asked = False, None

    def answered(frame: bytes) -> bytes:
        nonlocal covered
        covered = session.ports.capabilities.any_command_covers() or not frame.startswith(b"-")
        return b""

    while upstream is not asked:  # it may have been lost since, and another one is there
        asked = upstream
        session.sender.hide(upstream, _PING)
        session.sender.issue(upstream, _SHARD_MESSAGE, InFlightEntry(session.sender, 1, EDIT, answered))
        session.happens(Event.LOGGED_IN)
        yield from switching.until_drained(session)
        upstream = yield from switching.until_private(session)
    if not covered:
        sending.answer(session, WAIT_REFUSED)
        switching.release_pin(session)
        return
    session.sender.notify_when_idle = True
    submit_blocking(session, item)


def _pin(session: Session, item: Item) -> None:
    switching.to_drained_private(session)
    session.happens(Event.UNKNOWN)
    hidden_commands.note_state(session, item.command)
    sending.submit(session, item.raw, item.edit)


def _monitor(session: Session, item: JudgedCommand) -> None:
    # Its lines look like replies, so no reply may be pending when they begin, and nothing is counted afterwards.
    switching.to_private(session)
    switching.drained(session)
    session.happens(Event.UNKNOWN)
    if session.state.reply_mode != reply_mode.ON:
        client_reply.relay(session)
        sending.submit(session, item.raw)
        return

    def answered(frame: bytes) -> bytes:
        if frame.startswith(b"+") and not session.gone:
            client_reply.relay(session)
        return frame

    sending.submit(session, item.raw, answered)
    switching.wait_until_drained(session)


def _reply(session: Session, item: JudgedCommand) -> None:
    # Redis answers only where it refuses: a subscriber, or a user without the command. So it is asked first, with a
    # mode that it does not know, which changes nothing.
    switching.to_private(session)
    if session.state.subscriptions is not None:
        switching.drained(session)
    argv = item.command.argv
    mode = word_of(argv[2]) if len(argv) == 3 else b""
    if session.state.reply_mode == reply_mode.RELAYED or _confined(session):
        sending.submit(session, item.raw)
        if mode in _SILENCES and not _confined(session):
            _silence(session.on_its_own, _SILENCES[mode])
        return
    if session.state.reply_mode != reply_mode.ON or mode not in (b"OFF", b"SKIP"):
        session.happens(Event.UNKNOWN)
        _choose(session, mode, item.raw)
        return

    def answered(frame: bytes) -> bytes:
        if session.gone or not REPLY_MODE_UNKNOWN.begin(frame):
            return frame
        session.happens(Event.UNKNOWN)
        _choose(session, mode, item.raw)
        return b""

    session.sender.submit_with_action(_REPLY_IN_NO_MODE, EDIT, answered)
    switching.wait_until_drained(session)


def _choose(session: Session, mode: bytes, raw: bytes) -> None:
    # ON, OFF or SKIP, or something else, on which Redis has the word.
    state = session.on_its_own
    if state.reply_mode == reply_mode.RELAYED or mode not in (b"ON", b"OFF", b"SKIP"):
        sending.submit(session, raw)
        return
    if mode == b"ON":
        client_reply.end(session)
        sending.submit(session, raw)
        return
    session.sender.forwarded += 1
    session.sender.send_unanswered(raw)
    session.intake.direct = False
    if mode == b"OFF" or state.reply_mode != reply_mode.OFF:
        state.reply_mode = reply_mode.OFF if mode == b"OFF" else reply_mode.SKIP


def _silence(state: Pinned, mode: int) -> None:
    # SKIP ends no OFF: networking.c, clientCommand.
    if mode != reply_mode.SKIP or state.silence != reply_mode.OFF:
        state.silence = mode


def _confined(session: Session) -> bool:
    return session.state.subscriptions is not None and session.state.subscriptions.confines()


def _unknown(session: Session, item: JudgedCommand) -> None:
    # Neither the table nor the upstream's own COMMAND knows it. If the engine says so too, nothing has happened to the
    # connection; if not, it may hold anything.
    argv = item.command.argv
    container = session.effective_policy.table.container_of(argv)
    name = tuple(word_of(word) for word in (argv[:1] if container is None else argv[:2]))
    if session.probe not in (None, name) and session.sender.pending_replies == 0:
        # It was to ask about this command, which has another name for the engine that has come meanwhile.
        session.end_probe()
    lacking = session.ports.capabilities.lacks(name)
    if lacking and session.state.reply_mode == reply_mode.ON and not _kept_for_good(session):
        _lacking(session, item, name)
        return
    if lacking or _kept_for_good(session):
        forward_unchanged(session, item)
        return
    if session.probe is not None or session.state.upstream is None:
        switching.drained(session)
    if session.probe is None:
        if session.ports.capabilities.probing(name):
            session.ports.capabilities.await_probe(session, name)
            switching.must_wait(session, Awaited.PROBE)
        # From here on the others wait, or all clients of a crowd would open an upstream to ask the same.
        session.probe = name
        session.ports.capabilities.begin_probe(session, name)
    switching.to_private(session)

    def answered(line: bytes) -> None:
        lacking = _says_unknown(line)
        if not lacking:
            switching.doubt(session)
        if session.probe == name:  # else the client has left, and another one may ask
            session.probe = None
            session.ports.capabilities.end_probe(name, lacking)

    session.sender.notify_when_idle = True
    session.sender.forwarded += 1
    if session.state.reply_mode == reply_mode.ON:
        session.sender.submit_with_action(item.raw, PEEK, answered)
    else:
        session.happens(Event.UNKNOWN)
        sending.submit(session, item.raw)


def _kept_for_good(session: Session) -> bool:
    state = session.state
    return type(state) is Pinned and state.keeping is Keeping.FOR_GOOD


def _lacking(session: Session, item: JudgedCommand, name: CommandName) -> None:
    # The engine did not know it, so it goes over a shared upstream. A module may have been loaded since.
    upstream = switching.to_shared(session, item.command.spec.lane)

    def answered(line: bytes) -> None:
        if _says_unknown(line) or SAYS_NOTHING.hinted(line):
            return
        # The command may have set any state on the connection.
        session.ports.capabilities.has(name)
        if upstream is session.state.upstream:
            session.happens(Event.UNKNOWN)
        else:
            session.ports.pools.retire(upstream)

    session.sender.forwarded += 1
    session.sender.submit_with_action(item.raw, PEEK, answered)


def _says_unknown(line: bytes) -> bool:
    # A module's own error may say these words further on, and so may a script that it runs.
    return COMMAND_UNKNOWN.hinted(line)


def check_name(session: Session, item: Item) -> None:
    """Raises Refused for an unknown command that Redis must not see, known to it or not."""
    error = _error_instead(session, item.command)
    if error:
        raise Refused(error)


def _error_instead(session: Session, command: Command) -> bytes:
    notifies = tuple(word_of(word) for word in command.argv[:2]) == _NOTIFIES
    if notifies and session.ports.capabilities.looks_up_subcommands():
        name = command.argv[1][:_LONGEST_NAME].partition(b"\0")[0].replace(b"\r", b" ").replace(b"\n", b" ")
        return b"-ERR unknown subcommand '%b'. Try CLIENT HELP.\r\n" % name
    return error_for_name(command.argv, session.effective_policy.table)


def error_for_name(argv: list[bytes], table: Table) -> bytes:
    """The error for an unknown command whose name Redis must not see; empty for any other.

    A NUL in a name: engines may read the name as if it ended there, so nobody can tell what they would run. And
    subcommands of Keyrail's own container.
    """
    container = table.container_of(argv)
    if any(b"\0" in word for word in (argv[:1] if container is None else argv[:2])):
        return NO_NAME
    return (
        keyrail_command.unknown_subcommand(argv)
        if container is not None and container.state is ConnectionState.KEYRAIL
        else b""
    )


def _refused(session: Session, item: JudgedCommand) -> None:
    sending.answer(session, _REPLICATION_REFUSED)


HANDLERS: dict[ConnectionState, Handler] = {
    ConnectionState.BLOCKING: _blocking,
    ConnectionState.WAIT: _wait,
    ConnectionState.PIN: _pin,
}
CONNECTION_HANDLERS: dict[ConnectionState, Handler] = {
    ConnectionState.MONITOR: _monitor,
    ConnectionState.REPLY: _reply,
    ConnectionState.UNKNOWN: _unknown,
    ConnectionState.REFUSED: _refused,
}
