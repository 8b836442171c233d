"""Pools of upstream connections: supply, checkout, restarts, and whether Redis answers.

replicas.py          commands for all nodes of a cluster, on its replicas
opening.py           opens connections to the nodes of a route: login, database, server process, scripts
supply.py            opens the connections that pools need, and puts them there
backoff.py           the pauses between two attempts to connect to Redis
connections.py       reacts when upstream connections close, take commands again, or a topology changes
demotions.py         finds the connections that lead to a replica, and retires them
tenant_holds.py      holds back what a tenant's clients write, in all workers
write_pauses.py      finds out when Redis holds writes back, and keeps them off shared connections then
held_reads.py        moves the reads that a paused write holds up to another connection
standstills.py       finds shared connections from which nothing comes, while the node answers on another one
write_probe.py       whether Redis runs writes, or holds them back
sole_replicas.py     servers that have become replicas without a primary in their place: reads go on
connection_set.py    all upstream connections of a route, and how many commands they carried
databases.py         the databases that all nodes of a cluster have
checkout.py          gives connections to sessions
pool.py              one pool: shared connections, idle ones, and sessions that wait
pools.py             all pools of a route, by user, database and protocol
relearning.py        probes permissions, password and client names again when they may have changed
server_processes.py  the connections by the server process that they lead to
restarts.py          detects a restarted Redis, and closes the clients that relied on the memory of the old process
user_connections.py  the connections of users whom clients log in as, by user and node
groups.py            members of groups, which are found without a look at all others
user_waits.py        sessions that wait for a connection of a user whom clients log in as
user_logins.py       users whom clients log in as: who has to log in again
internal_queries.py  Keyrail's own queries to Redis, on connections of their own
late_writes.py       looks, after a pause of this process, at what leaves for Redis
failover_wait.py     how long commands wait for a server that takes the place of a lost one
liveness.py          health checks with PING: whether Redis answers, and which connections are dead
node_info.py         what a node says of its keys and memory (INFO)
latency_probe.py     how fast Redis answers a PING, for circuit breakers
"""
