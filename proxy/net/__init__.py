"""Sockets: client and upstream connections, pools, TLS, the embedded engine.

route.py                one route in one worker: listeners, clients, counters
route_clients.py        the clients of a route, and what they have sent
client.py               a client connection: a session with a transport
upstream.py             an upstream connection: a pipeline with a transport
slow_reader.py          a client that does not read its replies, and its time to catch up
connect.py              opens an upstream connection: transport, login, database
topology.py             the servers behind a route: nodes, their addresses, and who owns a key
supply.py               opens a route's upstream connections, and puts them into pools
connections.py          what happens when a route's upstream connections close or change their role
connection_set.py       all upstream connections of a route, and what they have carried
deadline.py             deadlines that a pause of this process does not make too early
checkout.py             gives connections to sessions
pool.py                 one pool: shared connections, idle ones, and sessions that wait
pools.py                all pools of a route, by user, database and protocol
relearning.py           probes again what may have changed in Redis: permissions, password, client names
restarts.py             detects that another server process answers, and closes the clients that relied on the old one
logins.py               logins of clients that Redis decides, and for how long an accepted one counts
user_changes.py         how often users were changed through Keyrail, in memory that all workers see
password_file.py        logins of clients that a file decides
entrance.py             how the clients of a listener come in
client_auth.py          whom a listener lets in
followed.py             what is made of files, made anew when they change
engine.py               engine, version and features of the Redis behind a route
capabilities.py         what a route knows about its Redis
internal_queries.py     Keyrail's own queries to Redis, on connections of their own
acceptor.py             accepts clients on one listening socket
handover.py             hands accepted connections over to workers with fewer clients
worker_loads.py         how many clients each worker has, in memory that all workers see
failures.py             failures that peers cause, counted by reason
admission.py            how many clients a worker takes
reply_timeout.py        closes clients that have waited too long for a reply
backlog.py              commands in flight and queued, and the age of the oldest
buffers.py              what waits for clients in memory, and a bound on all of it
idle_clients.py         closes clients that have sent no command for long
expiries.py             asks Redis when traced keys expire
liveness.py             health checks with PING: whether Redis answers, and which connections are dead
keepalive.py            TCP keepalive of clients and upstream connections
delayed_ack.py          acknowledges the end of a TLS handshake at once
latency_probe.py        how fast Redis answers a PING, for circuit breakers
periodic.py             tasks that repeat, whatever fails in one run
policies.py             the policy in force, compiled for what each user may run
verdicts.py             what rules decided: counters, evidence, violations
command_counts.py       commands by name
tracer.py               traces of commands, and the figures made from them
client_label.py         a client as reports name it
supervisor_requests.py  questions to the supervisor
script_exchange.py      asks other workers about scripts that they have seen
settings.py             all settings, as one frozen model
address.py              reads listen and upstream URLs
strict_url.py           the parts and options of a URL, and its secrets
tls.py                  TLS contexts that follow their files
embedded.py             a private Valkey
interpreter.py          how Keyrail starts processes of its own program
lacking.py              words for commands that Redis does not have or refuses
"""
