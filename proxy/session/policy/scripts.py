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
from proxy.rules.verdict import ReplyEdit
from proxy.session.item import ScriptSearch
from proxy.session.policy import judging
from proxy.session.ports.node_port import KnownScriptsPort
from proxy.session.session import Session
from proxy.session.state import Awaited

_MOST_ASKED = 100
"""Scripts of one SCRIPT EXISTS that others are asked about; of more, only what is known here counts."""

_FLUSH = "SCRIPT|FLUSH"
_TEXTS: dict[ScriptUse | None, int] = {"text": 1, "load": 2}
"""Which argument is the text."""


def waits(session: Session, command: Command) -> bool:
    """Whether the command has to wait until the other workers have been asked, or until others have had their turn."""
    before = session.search
    if before is not None and not before.over:
        session.wait_for(Awaited.SCRIPTS)
        return True
    session.search = None
    if before is None and judging.had_its_turn(session):
        session.search = ScriptSearch(session, frozenset())
        session.ports.route.after(0.0, session.search.arrived)
        session.wait_for(Awaited.SCRIPTS)
        return True
    unknown = session.effective_policy.compiled.unknown_to(command, partial(judging.context_of, session))
    if (before is not None and unknown <= before.scripts) or not 0 < len(unknown) <= _MOST_ASKED:
        return False
    search = ScriptSearch(session, unknown)
    if not session.ports.scripts.find(search, unknown):
        return False
    session.search = search
    session.wait_for(Awaited.SCRIPTS)
    return True


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
