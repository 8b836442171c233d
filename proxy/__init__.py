"""Keyrail: a guardrail proxy that speaks the Redis protocol.

Imports go in one direction only, from top to bottom of this map:

    cli/           the command line: one module per verb
    server/        supervisor, worker processes, listeners, policy reload, admin HTTP and the page
    net/           client and upstream connections, pools, TLS, the embedded engine
    session/       one client: its state, and where each of its commands goes
    policy/        YAML -> model -> compiled policy
    rules/         guardrails: one folder each, verdicts, and the order in which they judge
    traffic/       keys, patterns, slots, clients and violations: windows, merged over workers
    local_cache/   replies to reads of hot keys, kept in memory and true to Redis
    policy_yaml/   reads the YAML values that all guardrails share: lines, problems, durations, sizes, patterns
    schema/        key patterns, and the automaton that finds the schema entry of a key
    compression/   the stored form of compressed values, and replies with plain ones
    tenants/       a prefix before each name in a request, and none in its reply
    cluster/       commands over several nodes: joined replies, SCAN, CLUSTER answers, no node's address
    hotpath/       plan, client intake, upstream queue, counters (compiled)
    commands/      the command table, and key extraction (compiled): the ONE place for facts about commands
    wire/          RESP requests, replies, encoding and limits (compiled): the grammar, no command
    build_form.py  tells whether this Keyrail runs compiled or plain

No package from ``wire`` to ``session`` does I/O or reads a clock: bytes, ``now`` and randomness go in, bytes and
decisions come out. All asyncio is in ``net`` and ``server``.
"""

__version__ = "0.1.0"
