"""A limit on the sum of all client buffers of one worker.

Each client has its own limits (``--client-output-limit``, ``--client-query-limit``), but many clients together can
still use all memory. Keyrail closes the clients with the largest buffers first, as Redis does with
``maxmemory-clients`` (evictClients). Write buffers towards Redis need no such limit: a connection stops at 1 MB.
"""

import logging
from collections.abc import Collection

from proxy.session.session import Session

_log = logging.getLogger("keyrail.worker")


def enforce(limit: int, routes: Collection[Collection[Session]]) -> None:
    """Close the clients with the largest buffers until all buffers together are within ``limit`` bytes.

    It looks at all clients at once: it is called when memory is short.
    """
    sizes = [(client.waiting() + client.intake.unread(), client) for clients in routes for client in clients]
    held = total = sum(size for size, _ in sizes)
    if total <= limit:
        return
    closed = 0
    for size, client in sorted(sizes, key=lambda each: each[0], reverse=True):
        if held <= limit:
            break
        held -= size
        closed += 1
        client.close("buffer_limit")
    _log.warning("closed %d clients: all buffers held %d bytes, --buffer-limit allows %d", closed, total, limit)
