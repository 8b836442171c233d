"""Keyrail: a guardrail proxy that speaks the Redis protocol.

Package map; imports go in one direction only, from top to bottom:

    cli/        one verb, one file
    server/     supervisor, worker, listeners, reload, admin HTTP
    net/        client and upstream connections, pool, TLS, the embedded engine: all the asyncio there is, with server/
    session/    one client: what it may do now, and what it is owed
    policy/     model, load, compile, packaged files        traffic/   windows and merge: the cold side of the counters
    rules/      verdict, order, and one guardrail per file
    schema/     key patterns and their entries, and the automaton that finds the entry of a key
    hotpath/    plan, intake, ledger, counters (compiled where a C compiler is at hand)
    commands/   generated table and hand-written overlay, key extraction: ONE place for facts about commands
    wire/       RESP requests, replies, encoding, limits: the grammar, no command

From ``wire`` to ``session`` nothing does I/O or reads a clock: bytes, ``now`` and randomness in, bytes and decisions
out.
"""

__version__ = "0.1.0"
