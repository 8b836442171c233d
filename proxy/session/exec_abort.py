"""Transactions that fail: how Keyrail makes Redis abort one, and what Redis says of it.

The commands do nothing but fail: each is refused for its arity. Sent in place of a command inside MULTI that a rule has
refused, one makes Redis itself abort the transaction around it. Where EXEC is refused it has to be a bad EXEC, which
ends the transaction as well.
"""

ABORTING_COMMAND = b"*1\r\n$3\r\nGET\r\n"
ABORTING_EXEC = b"*2\r\n$4\r\nEXEC\r\n$1\r\n-\r\n"
EXEC_ABORTED = b"-EXECABORT"
EXEC_REFUSED = (EXEC_ABORTED, b"-MOVED ", b"-ASK ", b"-TRYAGAIN", b"-CLUSTERDOWN")
"""Replies to EXEC by which nothing of the transaction has run. The last ones come for the slot of commands that were
queued, even if others were refused. Without a transaction EXEC gets none of them."""
_REASON = b"-EXECABORT Transaction discarded because of: "
_SLOT = (b"-CLUSTERDOWN", b"-TRYAGAIN")


def reason_of(frame: bytes) -> bytes | None:
    """Why EXEC has run nothing, as the error that the command in the transaction would have got; None if the reply does
    not say it."""
    if frame.startswith(_REASON):
        return b"-" + frame[len(_REASON) :]
    return frame if frame.startswith(_SLOT) else None
