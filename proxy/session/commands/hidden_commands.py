"""Hidden commands that go with a client's own, on its connection: the client hears nothing of them.

Some run as one with the client's command, in a unit that only Redis sees:

    MULTI                 +OK                      hidden
    EXISTS k              +QUEUED                  hidden
    INCR k                +QUEUED, or its error    kept
    EXEC                  *2 :0 :1                 :0 noted, :1 to the client; or the error kept before

Inside a transaction of the client's own they are queued around its command, and their members of EXEC's array are left
out of it. Between WATCH and EXEC there is no MULTI around them, since its EXEC would end the WATCH: they stand right
before and behind the command in the same write (``bare``), and Redis runs what it reads at once without a pause. What
the replies prove then decides on commands that follow: see ``follow_ups``.

Nothing goes along where it could do harm or could not be told apart: without replies (CLIENT REPLY), behind ASKING,
with a read of a client that tracks keys (no read becomes a write); and no unit around what may block.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from proxy.cluster.hidden_nodes import hidden_redirect
from proxy.commands.command import Command
from proxy.commands.error_texts import EXEC_ABORTED, FOLLOW_UP_ELSEWHERE
from proxy.commands.table import ConnectionState
from proxy.commands.words import word_of
from proxy.hotpath.upstream.in_flight import EDIT, HIDE, NOTE, PEEK, UNWRAP, InFlightEntry, ReplySink
from proxy.policy.decision import HiddenCommands, What
from proxy.rules.verdict import ReplyEdit
from proxy.session.commands import follow_ups, script_units, sending
from proxy.session.commands.exec_abort import reason_of
from proxy.session.item import FollowUp, HeardReply, Item, RanOn
from proxy.session.policy import tenancy
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.session import Session
from proxy.wire.encode import encode_command, encode_error

_MULTI = encode_command([b"MULTI"])
_EXEC = encode_command([b"EXEC"])
_QUEUED = b"+QUEUED\r\n"
_CHOOSING = frozenset({b"OPTIN", b"OPTOUT"})
"""Options of CLIENT TRACKING under which CLIENT CACHING means the next command."""
_NO_LOOP = frozenset({b"NOLOOP"})

_NOBODY = ReplySink()
"""Receives replies that no client gets."""


def note_state(session: Session, command: Command) -> None:
    """Take note of a command after which nothing may go along: the client tracks keys, or speaks for a slot."""
    if command.spec.name == "CLIENT|TRACKING":
        # Queued, it may never run.
        ends = session.state.transaction is None and len(command.argv) == 3 and word_of(command.argv[2]) == b"OFF"
        before = session.no_hidden_commands
        if before in ("", follow_ups.TRACKS, follow_ups.CHOOSES):
            chooses = before == follow_ups.CHOOSES or not _CHOOSING.isdisjoint(map(word_of, command.argv))
            session.no_hidden_commands = "" if ends else follow_ups.CHOOSES if chooses else follow_ups.TRACKS
        no_loop = session.tracks_no_loop or not _NO_LOOP.isdisjoint(map(word_of, command.argv))
        session.tracks_no_loop = no_loop and not ends
    elif command.spec.name == "ASKING":
        session.no_hidden_commands = "the client follows the slots of a cluster"


def send(session: Session, item: Item) -> bool:
    """Send a command with all that goes with it, on the upstream chosen for it; False if it was refused instead."""
    obstacle = _obstacle(session, item.command, item.hidden)
    if obstacle:
        return _go_alone(session, item, obstacle)
    error = _overflow(session, tenancy.own_command(session, item), item.hidden)
    if error is not None:
        sending.refuse(session, error)
        return False
    surrounded = SurroundedCommand(session, item)
    surrounded.begin()
    surrounded.end(item.raw)
    return True


def alongside(
    session: Session, hidden: tuple[HiddenCommands, ...], command: Command, *, begun: bool
) -> tuple[bytes | None, tuple[HiddenCommands, ...]]:
    """What may go with a command that is streamed, or the error that the client gets in its place.

    `begun` says that the command is on its way already.
    """
    obstacle = _obstacle(session, command, hidden) if hidden else ""
    if needs_unit(hidden) and (begun or bare(session)):
        obstacle = obstacle or "the value is too large to be held back"
    if not obstacle:
        return _overflow(session, command, hidden), hidden
    return _forgo(session, hidden, command, obstacle), ()


def unless_queued(edit: ReplyEdit) -> ReplyEdit:
    """The edit for the place where a command is queued: where Redis refused the MULTI itself, it runs at once."""
    return lambda frame: frame if frame == _QUEUED else edit(frame)


def _obstacle(session: Session, command: Command, hidden: tuple[HiddenCommands, ...]) -> str:
    # Why nothing can go along with a command; empty if it can.
    silent = follow_ups.silent(session)
    if silent in (follow_ups.TRACKS, follow_ups.CHOOSES) and not command.spec.only_reads:
        # CLIENT CACHING holds for one command or transaction. Only a script writes and reads.
        in_vain = silent == follow_ups.CHOOSES and command.spec.own_errors and needs_unit(hidden) and bare(session)
        silent = silent if in_vain else ""
    if silent:
        return silent
    if session.state.transaction is None and needs_unit(hidden) and command.spec.state is ConnectionState.BLOCKING:
        return "the command may block"
    return ""


def bare(session: Session) -> bool:
    """Whether a unit has no MULTI around it: its EXEC would end the client's WATCH."""
    return session.state.transaction is None and session.state.watching is not None


def needs_unit(hidden: tuple[HiddenCommands, ...]) -> bool:
    """Whether some of them run right before or after the command, as one with it."""
    return any(each.surround.before or each.surround.after for each in hidden)


def notice(session: Session, command: Command, hidden: HiddenCommands, line: bytes) -> None:
    """Count what a rule finds worth counting in the first line of a reply."""
    noticed = "" if hidden.surround.notice is None else hidden.surround.notice(line)
    if noticed:
        session.ports.reports.report([hidden.hit("noticed", noticed)], command, session)


def _overflow(session: Session, command: Command, hidden: tuple[HiddenCommands, ...]) -> bytes | None:
    # The error where more would wait to follow than may.
    acting = [each for each in hidden if each.surround.about]
    error = follow_ups.overflow(session) if acting else None
    if error is not None:
        session.ports.reports.report([acting[0].hit("refused", "too many hidden commands wait")], command, session)
    return error


def _forgo(session: Session, hidden: tuple[HiddenCommands, ...], command: Command, why: str) -> bytes | None:
    # Nothing can go along: the error of the first rule that then wants none of it, or None.
    for each in hidden:
        if each.surround.otherwise is not None:
            session.ports.reports.report([each.hit("refused", why)], command, session)
            return each.surround.otherwise.error
    hits = [each.hit("skipped", why) for each in hidden if each.surround.about]
    if hits:
        session.ports.reports.report(hits, command, session)
    return None


def _go_alone(session: Session, item: Item, why: str) -> bool:
    error = _forgo(session, item.hidden, tenancy.own_command(session, item), why)
    running = session.state.transaction
    if error is not None:
        sending.refuse(session, error)
        return False
    if script_units.proves_refusals(session, item):
        script_units.send(session, item)
    elif item.edit is None or running is None:
        sending.submit(session, item.raw, item.edit)
    else:
        running.actions[session.sender.forwarded - running.first] = (sending.action_of(item.edit), item.edit)
        sending.submit(session, item.raw, unless_queued(item.edit))
    return True


class SurroundedCommand:
    """The hidden commands of one command: what has been said so far, and what follows from it.

    Between ``begin`` and ``end`` the command may be sent in pieces; ``end`` sends the last one.
    """

    def __init__(self, session: Session, item: Item) -> None:
        assert session.sender.upstream is not None
        self._session = session
        self._upstream = session.sender.upstream
        self._ran_on = RanOn(session.sender.upstream)
        self._item = item
        self._own = tenancy.own_command(session, item)
        self._before = [argv for each in item.hidden for argv in each.surround.before]
        self._after = [argv for each in item.hidden for argv in each.surround.after]
        running = session.state.transaction
        self._switches = None if running is None else running.switches
        self._bare = bare(session)
        self._key = session.place() if running is None else session.place()._replace(database=running.database)
        self._said: dict[int, bytes] = {}
        self._early: bytes | None = None
        self._shown = b""
        """The first line of the reply as the client gets it, if rules edit it."""

    def action(self) -> tuple[int, Any]:
        """The action on the reply to the client's own command: Keyrail reads it, and rules may edit it."""
        place = len(self._before)
        edit = self._item.edit
        if edit is None:
            return PEEK, self._listen(place)
        listen = self._listen(place)

        def answered(frame: bytes) -> bytes:
            edited = edit(frame)
            self._shown = edited[: edited.index(b"\n") + 1]
            listen(frame[: frame.index(b"\n") + 1])
            return edited

        return EDIT, HeardReply(answered, self._ran_on)

    def _listen(self, place: int) -> Callable[[bytes], None]:
        # What hears the reply at this place among the hidden commands and the client's own.
        def heard(line: bytes) -> None:
            self._said[place] = line[: line.index(b"\n") + 1]
            if len(self._said) == len(self._before) + 1 + len(self._after):
                self._conclude()

        return HeardReply(heard, self._ran_on)

    def begin(self) -> None:
        """Send the commands that go before the client's."""
        if any(each.surround.about for each in self._item.hidden):
            self._session.may_have_follow_ups = True
        if self._session.state.transaction is not None:
            for i, argv in enumerate(self._before):
                self._queue_hidden(i, argv)
        elif self._bare:
            for i, argv in enumerate(self._before):
                self._send_bare(i, argv)
        elif self._before or self._after:
            self._session.sender.begin_unit(self._upstream)
            begun = _MULTI + b"".join(map(encode_command, self._before))
            self._session.sender.issue(self._upstream, begun, InFlightEntry(_NOBODY, 1 + len(self._before), HIDE, None))

    def end(self, raw: bytes) -> None:
        """Send the rest of the client's command, and those that go behind it."""
        session = self._session
        if session.state.transaction is not None:
            self._queue(raw)
        elif (self._before or self._after) and not self._bare:
            self._end_unit(raw)
        else:
            action, payload = self.action()
            session.sender.forwarded += 1
            session.sender.submit_with_action(raw, action, payload)
            for i, argv in enumerate(self._after, len(self._before) + 1):
                self._send_bare(i, argv)

    def _send_bare(self, place: int, argv: Sequence[bytes]) -> None:
        # Its sink is the client's, so that what changes the connection waits for it.
        session = self._session
        heard = InFlightEntry(session.sender, 1, NOTE, self._listen(place))
        session.sender.issue(self._upstream, encode_command(list(argv)), heard)

    def _end_unit(self, raw: bytes) -> None:
        session, upstream = self._session, self._upstream
        session.sender.forwarded += 1
        place = len(self._before)
        members = {i: (NOTE, self._listen(i)) for i in range(place + 1 + len(self._after))}
        replies = [
            InFlightEntry(_NOBODY, 1, NOTE, self._note_early),
            InFlightEntry(session.sender, 1, UNWRAP, ({**members, place: self.action()}, self._instead)),
        ]
        if self._after:
            replies.insert(1, InFlightEntry(_NOBODY, len(self._after), HIDE, None))
        session.sender.issue(upstream, raw + b"".join(map(encode_command, self._after)) + _EXEC, *replies, commands=1)
        session.sender.end_unit()

    def _queue(self, raw: bytes) -> None:
        # Each has its own place in EXEC's array.
        session = self._session
        running = session.state.transaction
        assert running is not None
        running.actions[session.sender.forwarded - running.first] = self.action()
        session.sender.forwarded += 1
        place = len(self._before)
        edit = self._item.edit
        if edit is None:
            session.sender.submit_with_action(raw, PEEK, partial(self._note_queued, place))
        else:
            session.sender.submit_with_action(raw, EDIT, partial(self._edit_queued, place, edit))
        for i, argv in enumerate(self._after, place + 1):
            self._queue_hidden(i, argv)

    def _queue_hidden(self, place: int, argv: Sequence[bytes]) -> None:
        session = self._session
        running = session.state.transaction
        assert running is not None
        running.actions[session.sender.forwarded - running.first] = (NOTE, self._listen(place))
        session.sender.forwarded += 1
        noted = InFlightEntry(_NOBODY, 1, NOTE, partial(self._note_queued, place))
        session.sender.issue(self._upstream, encode_command(list(argv)), noted)

    def _note_queued(self, place: int, frame: bytes) -> None:
        if not frame.startswith(b"-"):
            if frame != _QUEUED:
                # Redis refused the client's MULTI, so this has run at once, and EXEC will tell of nothing.
                self._listen(place)(frame)
        elif place != len(self._before) and not FOLLOW_UP_ELSEWHERE.begin(frame):
            # Redis refused to queue a hidden command, and aborts the client's transaction; the next one goes alone.
            self._forgo_hidden()

    def _edit_queued(self, place: int, edit: ReplyEdit, frame: bytes) -> bytes:
        self._note_queued(place, frame)
        return unless_queued(edit)(frame)

    def _note_early(self, frame: bytes) -> None:
        # Redis refused to queue the command; or it refused the MULTI, and ran the command at once.
        if frame != _QUEUED:
            nodes, self._early = self._session.ports.nodes, frame
            if nodes is not None:
                # Where it is not sent again, its client hears of no node.
                self._early = hidden_redirect(frame)
                if self._early is not frame and isinstance(self._upstream, PrivatePipeline):
                    nodes.redirected(frame, self._upstream.key.node)

    def _instead(self, frame: bytes) -> bytes:
        # EXEC has run nothing. The client gets the reason why its own command did not run.
        reply = reason_of(frame) if self._early is None else self._early
        if reply is None:
            if not EXEC_ABORTED.begin(frame):
                # The transaction may still be open: Redis could queue further commands in it.
                self._session.ports.pools.discard(self._upstream)
            return self._refuse()
        return reply if self._item.edit is None else self._item.edit(reply)

    def _refuse(self) -> bytes:
        self._forgo_hidden()
        return encode_error(
            f"DENIED keyrail/{self._item.hidden[0].rule}: Redis refused a hidden command that goes with this one, "
            "so nothing was run; send it again"
        )

    def _forgo_hidden(self) -> None:
        self._report(self._item.hidden[0], "error", "Redis refused a hidden command")
        self._session.no_hidden_commands = "Redis refused a hidden command"

    def _conclude(self) -> None:
        line = self._said[len(self._before)]
        failed = line.startswith(b"-")
        if self._bare and any(self._said[place].startswith(b"-") for place in range(len(self._before))):
            # The command has run, with nothing to prove what it did. The next ones go alone, or are refused.
            self._forgo_hidden()
            return
        first, second = 0, len(self._before) + 1
        for hidden in self._item.hidden:
            places = [*range(first, first + len(hidden.surround.before))]
            places += range(second, second + len(hidden.surround.after))
            first += len(hidden.surround.before)
            second += len(hidden.surround.after)
            if failed and not hidden.surround.after_error:
                self._report(hidden, "skipped", "an error proves nothing")
                continue
            try:
                notice(self._session, self._own, hidden, self._shown or line)
                found = hidden.surround.conclude(line, [self._said[place] for place in places])
            except Exception as error:  # noqa: BLE001 - a rule's bug must not take the connection down
                self._report(hidden, "error", type(error).__name__)
                continue
            for argv in found:
                follow_ups.take(self._session, self._follow_up(argv, hidden))

    def _follow_up(self, argv: Sequence[bytes], hidden: HiddenCommands) -> FollowUp:
        upstream, key = self._ran_on.upstream, self._key
        if upstream is not self._upstream:
            assert isinstance(upstream, PrivatePipeline), "each connection to a node has a key"
            key = key._replace(node=upstream.key.node)
        return FollowUp(argv, hidden, self._own, key, upstream, self._switches, self._ran_on.asks)

    def _report(self, hidden: HiddenCommands, what: What, detail: str) -> None:
        self._session.ports.reports.report([hidden.hit(what, detail)], self._own, self._session)
