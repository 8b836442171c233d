"""Scripts that were seen: by other workers, for rules that judge a command; by this one, for nodes of a cluster.

A script that was not seen here may have been seen by another worker: a client that loads a script on one connection and
runs it on another must not be told NOSCRIPT. So before an EVALSHA of something unknown is judged, the other workers
are asked, while only this client waits. A transaction with such a command never shares its upstream.

With a cluster upstream, the text of each script that a node has accepted is remembered, since nodes that come later get
it.
"""

from collections.abc import Callable
from functools import partial

from proxy.commands.command import Command
from proxy.commands.row import ScriptUse
from proxy.commands.rows import ROWS
from proxy.rules.shared_state import FactKey
from proxy.rules.verdict import ReplyEdit
from proxy.session.item import Arrival
from proxy.session.policy import judging
from proxy.session.ports.node_port import KnownScriptsPort
from proxy.session.progress import Step
from proxy.session.session import Session
from proxy.session.state import Awaited

_MOST_ASKED = 100
"""Scripts of one SCRIPT EXISTS that others are asked about; of more, only what is known here counts."""

_FLUSH = "SCRIPT|FLUSH"
_TEXTS: dict[ScriptUse | None, int] = {"text": 1, "load": 2}
"""Which argument is the text."""


def told(session: Session, command: Command) -> Step[None] | None:
    """Ask the other workers, or let others have their turn; None where there is no reason to."""
    if judging.had_its_turn(session):
        return _told(session, command, turns=True)
    return _told(session, command) if _asked_about(session, command) else None


def _told(session: Session, command: Command, *, turns: bool = False) -> Step[None]:
    if turns:
        turn = Arrival(session)
        session.ports.route.after(0.0, turn.arrived)
        yield from _over(session, turn)
    asked: frozenset[FactKey] = frozenset()
    while not (unknown := _asked_about(session, command)) <= asked:
        search = Arrival(session)
        if not session.ports.scripts.find(search, unknown):
            return
        yield from _over(session, search)
        asked = unknown


def _over(session: Session, search: Arrival) -> Step[None]:
    while not search.over:
        session.wait_for(Awaited.SCRIPTS)
        yield


def _asked_about(session: Session, command: Command) -> frozenset[FactKey]:
    unknown = session.effective_policy.compiled.unknown_to(command, partial(judging.context_of, session))
    return unknown if len(unknown) <= _MOST_ASKED else frozenset()


def edit_for(session: Session, command: Command) -> ReplyEdit | None:
    """The edit of a reply from which rules learn, or in which they change something."""
    return session.effective_policy.compiled.edit_of_reply(command, partial(judging.context_of, session))


def remembering(known: KnownScriptsPort, command: Command) -> ReplyEdit | None:
    """The edit of a reply, unchanged, after which a script is remembered, or all are forgotten; None if neither."""
    if command.spec.name == _FLUSH:
        return partial(_unless_error, known.forget)
    row = ROWS.get(command.spec.name)
    place = 0 if row is None else _TEXTS.get(row.script, 0)
    if not 0 < place < len(command.argv) or known.knows(command.argv[place]):
        return None
    return partial(_unless_error, partial(known.remember, command.argv[place]))


def _unless_error(act: Callable[[], None], frame: bytes) -> bytes:
    if not frame.startswith(b"-"):
        act()
    return frame
