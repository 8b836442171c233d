"""The sizes of all client buffers of one worker, and a limit on their sum.

    output   replies that clients have not read yet
    query    bytes of commands that are unfinished, or that wait

Each client has its own limits (``--client-output-limit``, ``--client-query-limit``), but many clients together can
still use all memory. Keyrail closes the clients with the largest buffers first, as Redis does with
``maxmemory-clients`` (evictClients). Write buffers towards Redis need no such limit: a connection stops at 1 MB.
"""

import logging
from collections.abc import Collection, Iterable

from proxy.session.session import Session

_log = logging.getLogger("keyrail.worker")


def buffers_of(clients: Iterable[Session]) -> dict[str, int]:
    """Bytes in the buffers of these clients, by kind."""
    output = query = 0
    for client in clients:
        output += client.waiting()
        query += client.intake.unread()
    return {"output": output, "query": query}


def enforce(limit: int, routes: Collection[Collection[Session]]) -> None:
    """Close the clients with the largest buffers until all buffers together are within ``limit`` bytes."""
    total = sum(sum(buffers_of(clients).values()) for clients in routes)
    if total <= limit:
        return
    held = total
    sizes = [(client.waiting() + client.intake.unread(), client) for clients in routes for client in clients]
    closed = 0
    for size, client in sorted(sizes, key=lambda each: each[0], reverse=True):
        if held <= limit:
            break
        held -= size
        closed += 1
        client.close("buffer_limit")
    _log.warning("closed %d clients: all buffers held %d bytes, --buffer-limit allows %d", closed, total, limit)
