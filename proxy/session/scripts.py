"""Scripts on their way: what the rules about them need besides the command itself.

A script that was not seen here may have been seen by another worker: a client that loads a script on one connection and
runs it on another must not be told NOSCRIPT. So before an EVALSHA of something unknown is judged, the other workers
are asked, while only this client waits. A transaction with such a command never shares its upstream.

A function's library is learnt from Redis's reply: one that Redis did not take changed nothing. SCRIPT EXISTS says that
there is no such script where EVALSHA would be told so.
"""

from functools import partial

from proxy.commands.command import Command
from proxy.policy.script_call_rules import hides, unknown_to
from proxy.rules.scripts.calls import SCRIPT_USES
from proxy.rules.scripts.memory import script_key
from proxy.rules.verdict import ReplyEdit
from proxy.session import judging
from proxy.session.session import Session

_MOST_ASKED = 100
"""Scripts of one SCRIPT EXISTS that others are asked about; of more, only what is known here counts."""


def waits(session: Session, command: Command) -> bool:
    """Whether the command has to wait until the other workers have been asked."""
    asked, session.sought = session.sought, frozenset()
    unknown = unknown_to(session.effective_policy.compiled.scripts, command, partial(judging.context_of, session))
    if unknown <= asked or len(unknown) > _MOST_ASKED:
        return False
    if not session.ports.scripts.find(session, unknown):
        return False
    session.sought = unknown
    session.halted = True
    return True


def edit_for(session: Session, command: Command) -> ReplyEdit | None:
    """What is to be done with the reply to a command that goes on."""
    match SCRIPT_USES.get(command.spec.name):
        case "library":
            return _learning(session, command.argv[-1])
        case "payload":
            return _forgetting(session)
        case "exists":
            return _hiding(session, command)
    return None


def _learning(session: Session, text: bytes) -> ReplyEdit:
    memories = [rule.memory for _, rule in session.effective_policy.compiled.scripts]

    def learn(frame: bytes) -> bytes:
        if not frame.startswith(b"-"):
            for memory in memories:
                memory.loaded(text)
        return frame

    return learn


def _forgetting(session: Session) -> ReplyEdit:
    memories = [rule.memory for _, rule in session.effective_policy.compiled.scripts]

    def forget(frame: bytes) -> bytes:
        if not frame.startswith(b"-"):
            for memory in memories:
                memory.forget_functions()
        return frame

    return forget


def _hiding(session: Session, command: Command) -> ReplyEdit | None:
    rules, context = session.effective_policy.compiled.scripts, judging.context_of(session)
    hidden = [hides(rules, command, context, script_key(sha)) for sha in command.argv[2:]]
    if not any(hidden):
        return None

    def hide(frame: bytes) -> bytes:
        lines = frame.split(b"\r\n")
        if lines[0] != b"*%d" % len(hidden):
            return frame
        told = (b":0" if each else line for each, line in zip(hidden, lines[1:], strict=False))
        return b"\r\n".join((lines[0], *told, b""))

    return hide
