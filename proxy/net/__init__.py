"""Sockets: client and upstream connections, pools, TLS, the embedded engine.

A folder imports only from those below it in this list.

route/       one route, put together, and its figures
embedded/    a private engine, for a first look and for tests
logins/      who gets in, and as which user
cache/       the local cache of a route: the connections that keep it true, and its figures
replicas/    reads from replicas: how far behind they are, which one is read from, and its connections
follow/      what watches Sentinels, clusters and names, and follows their changes
pool/        pools of upstream connections: supply, checkout, restarts, and whether Redis answers
policy/      the policies in force in a worker, what users may run, and what is counted of their verdicts
topology/    the servers behind a route, who owns a key, and what keeps connections away from other servers
downstream/  clients' connections: accepting, admission, what they wait for, and when they are closed
connection/  one connection to a server: opening, TLS, keepalive, timers, and what the engine is
sockets/     plain sockets, read and written without the event loop's transports
config/      what the operator sets: addresses, URLs and the settings of routes
"""
