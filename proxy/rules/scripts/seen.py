"""Scripts of commands: the text that comes with one, or the SHA1 under which one must be known.

EVALSHA of a script that is not known gets Redis's own NOSCRIPT, upon which client libraries send the text, and SCRIPT
EXISTS says the same of it.
"""

from collections.abc import Sequence

from proxy.commands.command import Command
from proxy.commands.row import ScriptUse
from proxy.rules.scripts.calls import SCRIPT_USES
from proxy.rules.scripts.memory import ScriptKey, script_key
from proxy.rules.verdict import Answer, Refuse, ReplyEdit
from proxy.wire.encode import encode_error

NOSCRIPT = encode_error("NOSCRIPT No matching script. Please use EVAL.")
_TEXT_AT: dict[ScriptUse, int] = {"text": 1, "load": 2}
"""The argument that is the text of a script; the text of a library is the last argument."""


def text_of(command: Command) -> bytes | None:
    """The text of a script or library that comes with a command; None if it has not arrived."""
    index = _TEXT_AT.get(SCRIPT_USES[command.spec.name], len(command.argv) - 1)
    text = command.argv[index]
    return text if command.length(index) == len(text) else None


def keys_of(command: Command) -> tuple[ScriptKey, ...]:
    """The scripts that must be known to judge this command; none if its text comes with it."""
    argv, use = command.argv, SCRIPT_USES.get(command.spec.name)
    if use == "sha" and len(argv) > 1:
        return (script_key(argv[1]),)
    if use == "exists":
        return tuple(script_key(sha) for sha in argv[2:])
    return ()


def not_known(*, in_transaction: bool) -> Refuse | Answer:
    """What EVALSHA of a script gets that is not known."""
    # In a transaction it must abort the transaction; elsewhere it is no fault, and the client sends the text.
    return Refuse(NOSCRIPT) if in_transaction else Answer(NOSCRIPT)


def hiding(hidden: Sequence[bool]) -> ReplyEdit:
    """The edit of a reply to SCRIPT EXISTS in which these scripts are missing."""

    def hide(frame: bytes) -> bytes:
        lines = frame.split(b"\r\n")
        if lines[0] != b"*%d" % len(hidden):
            return frame
        told = (b":0" if each else line for each, line in zip(hidden, lines[1:], strict=False))
        return b"\r\n".join((lines[0], *told, b""))

    return hide
