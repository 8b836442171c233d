"""What waits in the memory of one worker for its clients, and a bound on all of it together.

    output   replies that clients have not read yet
    query    what clients have sent of commands that are unfinished, or that wait

Each client has limits of its own (``--client-output-limit``, ``--client-query-limit``); many clients below theirs can
still use all memory. As Redis does with ``maxmemory-clients`` (evictClients), those with the largest buffers are closed
first. What waits for Redis needs no such bound: at 1 MB a connection takes no more.
"""

import logging
from collections.abc import Collection, Iterable

from proxy.session.session import Session

_log = logging.getLogger("keyrail.worker")


def buffers_of(clients: Iterable[Session]) -> dict[str, int]:
    """Bytes that wait for these clients, by kind."""
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
