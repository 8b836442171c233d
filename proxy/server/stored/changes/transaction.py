"""How a transaction of which nothing is to run ends.

MULTI is sent together with WATCH and the reads, before their replies are known. So the server may have refused some of
them: where there is no transaction, the key is watched all the same, and where the user may not run DISCARD, the
transaction stays open. A key that stays watched lets a later EXEC on this connection fail, and an open transaction
takes all that is asked from then on.
"""

from proxy.server.stored.node_walk import LostReplyError, Request, ScanRefusedError, Walking
from proxy.server.stored.page import Command

ABANDONING: list[Command] = [(b"DISCARD",), (b"UNWATCH",)]
"""Behind this, no key is watched, whether there was a transaction or not. In an open one, UNWATCH is queued."""


def abandon(database: int) -> Walking:
    """Run nothing of the transaction, if there is one, and watch no key. Raises ScanRefusedError if the user may not
    end it, and OtherProcessError."""
    try:
        discarded, unwatched = yield Request(database, ABANDONING, once=True)
    except LostReplyError:
        return  # the connection is lost, and the transaction with it
    if unwatched == b"QUEUED":
        raise ScanRefusedError(f"DISCARD: {discarded}")
