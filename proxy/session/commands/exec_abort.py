"""Transactions that fail: how Keyrail makes Redis abort one, and what Redis says of it.

The commands do nothing but fail: each is refused for its arity. Sent in place of a command inside MULTI that a rule has
refused, one makes Redis itself abort the transaction around it. Where EXEC is refused it has to be a bad EXEC, which
ends the transaction as well.
"""

from proxy.commands.error_texts import EXEC_BECAUSE, EXEC_SLOT

ABORTING_COMMAND = b"*1\r\n$3\r\nGET\r\n"
ABORTING_EXEC = b"*2\r\n$4\r\nEXEC\r\n$1\r\n-\r\n"


def reason_of(frame: bytes) -> bytes | None:
    """Why EXEC has run nothing, as the error that the command in the transaction would have got; None if the reply does
    not say it."""
    if EXEC_BECAUSE.begin(frame):
        return b"-" + frame[len(EXEC_BECAUSE.beginnings[0]) :]
    return frame if EXEC_SLOT.begin(frame) else None
