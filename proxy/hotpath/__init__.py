"""What runs for every command: the plan of a policy, the intake of a client, the ledger of an upstream, the counters.

Compiled where a C compiler is at hand; no sockets and no YAML.
"""
