"""A simulated world, in which real routes and their sessions run: engines, a cluster, Sentinels, time and the network.

    loop.py         an event loop whose time passes only where nothing else is to be done
    network.py      connections without sockets: delay, loss, cuts, reordering between connections
    replies.py      values as RESP2 and RESP3
    data.py         keys, values and TTLs
    table.py        the commands, as Redis describes them
    values.py       commands of strings, hashes, lists and sets
    keys.py · serving.py · pubsub.py · scripts.py   further commands
    connection.py   what a command meets before it runs
    engine.py       one server: its process, what changes in it, and who is told
    replication.py  what a primary sends to its replicas
    node.py         a node of a cluster: what it believes, and which commands it runs
    slots.py        the slot of a key
    cluster.py      slots that move, and primaries that are replaced
    sentinel.py     Sentinels, and how they replace a primary
    world.py        all of it by one seed, with routes and clients
    writers.py · counting.py   clients that know what they must be answered
    histories.py    what connections send, made up by a seed

It uses nothing of the program but what a worker does: a route, its settings and its policy.
"""
