"""Sockets: client and upstream connections, pools, TLS, the embedded engine.

route.py                one route in one worker: listeners, clients, counters
route_clients.py        the clients of a route, and how many commands they sent
client.py               a client connection: a session with a transport
upstream.py             an upstream connection: a pipeline with a transport
own_commands.py         Keyrail's own commands on an upstream connection
slow_reader.py          closes a client that does not read its replies
connect.py              opens an upstream connection: transport, login, database
topology.py             the servers behind a route: nodes, their addresses, and who owns a key
topologies.py           which topology an upstream has, and what follows its changes
primary.py              the topology of one primary that another server can replace
guards.py               which guard keeps the new connections of a topology away from other servers
name_guard.py           keeps connections away from servers that a name does not lead to any more
node_guard.py           keeps connections away from servers that have the address of a node, and are not that node
cluster.py              the nodes of a cluster as a topology, with stable numbers
slot_map.py             what the nodes of a cluster tell, and the map that follows
nodes.py                the nodes of a cluster as sessions see them
replicas.py             commands for all nodes of a cluster, on its replicas
watch.py                looks at the servers behind a route again and again, and tells what is wrong
links.py                connections to servers that are asked what they know
cluster_watch.py        asks the nodes of a cluster what it is, and follows its changes
sentinel_views.py       what Sentinels tell about a primary, and what follows from that
name_watch.py           follows a DNS name to another primary
sentinel_watch.py       asks Sentinels for the primary, and follows it
roles.py                asks servers whether they are primaries
other_primaries.py      finds servers that call themselves primary while the Sentinels name another one
own_connections.py      the keeper of connections that no client and no pool gets
replica_history.py      what a primary's replication offset was, and when
replica_connections.py  the connections on which clients read from replicas
replica_slot.py         the connection of one pool to one replica
replica_choice.py       which replica a client reads from
replica_watch.py        asks replicas and their primaries how far they are
watched_replicas.py     primaries and their replicas, as looks have found them
node_figures.py         the servers behind a route in figures: nodes of a cluster, a primary and its replicas
opening.py              opens connections to the nodes of a route: login, database, server process, scripts
supply.py               opens the connections that pools need, and puts them there
connections.py          reacts when upstream connections close, take commands again, or a topology changes
demotions.py            finds the connections that lead to a replica, and retires them
write_pauses.py         finds out when Redis holds writes back, and keeps them off shared connections then
sole_replicas.py        servers that have become replicas without a primary in their place: reads go on
connection_set.py       all upstream connections of a route, and how many commands they carried
databases.py            the databases that all nodes of a cluster have
deadline.py             timers and waits that do not end early after a pause of this process
checkout.py             gives connections to sessions
pool.py                 one pool: shared connections, idle ones, and sessions that wait
pools.py                all pools of a route, by user, database and protocol
relearning.py           probes permissions, password and client names again when they may have changed
rights.py               what users may run, as each node has told: rules send what all of them let a user run
server_processes.py     the connections by the server process that they lead to
restarts.py             detects a restarted Redis, and closes the clients that relied on the memory of the old process
logins.py               logins of clients that Redis decides, and for how long an accepted one counts
group_counts.py         what has happened in a group of workers, in memory that all of them see
user_connections.py     the connections of users whom clients log in as, by user and node
groups.py               members of groups, which are found without a look at all others
user_logins.py          users whom clients log in as: who has to log in again
node_logins.py          logins of users on the other nodes of a cluster
background_thread.py    what files on a file system that is away can stall
password_file.py        logins of clients that a file decides
entrance.py             the pool, limits and login rules that a listener's clients begin with
client_auth.py          the login methods of a listener
followed.py             values built from files, rebuilt when the files change
engine.py               engine, version and features of the Redis behind a route
asked_once.py           what many new connections need to know at one moment, asked by one of them
capabilities.py         the capabilities of a route's Redis and of its users
internal_queries.py     Keyrail's own queries to Redis, on connections of their own
acceptor.py             accepts clients on one listening socket
garbage_collector.py    keeps the garbage collector away while a policy is bound
patience.py             whether a client has given up what it sent
attention.py            notes that a worker is there to accept, and finds out when it was not
late_writes.py          looks, after a pause of this process, at what leaves for Redis
worker_loads.py         how many clients each worker has, in memory that all workers see
failover_wait.py        how long commands wait for a server that takes the place of a lost one
failures.py             failures that peers cause, counted by reason
admission.py            how many clients a worker takes
reply_timeout.py        closes clients that have waited too long for a reply
backlog.py              commands in flight and queued, and the age of the oldest
buffers.py              a limit on the sum of all client buffers
census.py               what clients have sent, and what of that waits
rounds.py               goes through all clients, a portion in each turn
idle_clients.py         closes clients that have sent no command for long
local_caches.py         the local cache of a route: what clients use of it, and which reads wait
cache_uses.py           the rules about the local cache of each effective policy, and what they do with replies
cache_totals.py         what the local cache has done, in all and by rule
missing_replies.py      replies that the local cache lacks, and reads that wait for them
unheld_commands.py      commands that are pending when the local cache begins to be about their keys
untold_commands.py      commands that may still run, of which Redis does not tell what they change
cache_scope.py          what the rules of a policy say about the local cache
command_cost.py         what a command costs Redis
command_times.py        how long each command takes there
tracked_database.py     the replies of one database, and the connections that keep them true
tracking.py             the connection that fills a local cache and tells it what has changed
cluster_slots.py        of which slots of a cluster replies are kept, and from which node
tracking_setup.py       how such a connection begins, and what its user may not do there
expiries.py             asks Redis when traced keys expire
readiness.py            whether commands reach Redis, and why not
liveness.py             health checks with PING: whether Redis answers, and which connections are dead
keepalive.py            TCP keepalive of client and upstream connections
unsent.py               takes back what a closing connection has not sent yet
delayed_ack.py          acknowledges the end of a TLS handshake at once
latency_probe.py        how fast Redis answers a PING, for circuit breakers
often_read.py           which keys are hot for the local cache
periodic.py             tasks that repeat, also after a failure
policies.py             the policy in force, and how another one replaces it
policy_generation.py    one policy, bound for what each user may run and for each app
plan_compiler.py        makes plans, each once for all workers
verdicts.py             decisions of rules: counters, evidence, violations
command_counts.py       commands by name
tracer.py               traces of commands, and the figures made from them
client_label.py         a client as reports name it
supervisor_requests.py  questions to the supervisor
known_scripts.py        the scripts that nodes of a cluster get when they come
script_exchange.py      asks other workers about scripts that they have seen
settings.py             all settings, as one frozen model
address.py              reads listen and upstream URLs
endpoint.py             where a server is to be reached
strict_url.py           the parts and options of a URL, and its secrets
sentinel_address.py     reads the Sentinels of a primary
cluster_address.py      reads the seeds of a cluster, and which address leads to a node behind NAT
tls.py                  TLS contexts that follow their files
embedded.py             a private Valkey, or a cluster of them
embedded_servers.py     the servers of an embedded engine
interpreter.py          how Keyrail starts processes of its own program
lacking.py              texts about commands that Redis does not have or refuses
"""
