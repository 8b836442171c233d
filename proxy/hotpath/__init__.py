"""The code that runs for every command: client intake, a policy's plan, the upstream queue, counters.

A folder imports only from those below it in this list.

intake/    one client: its bytes in, runs of commands out
replicas/  which of a client's reads go to replicas, and what it has seen of its primary
cache/     replies to reads, kept until their key changes
plan/      a policy as a few closed operations for each command, and the edits that they make
cluster/   which node a request goes to, and requests that go to several
order/     the order of one client's replies, where several sources send them
upstream/  one connection to Redis: what is sent there, and whose each reply is
counting/  what is counted on the hot path: uses of keys, errors, and commands to trace

Modules with a ``.pxd`` beside them are compiled where a C compiler is at hand. No sockets and no YAML.
"""
