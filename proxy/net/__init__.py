"""Sockets and what waits for them: client and upstream connections, the pools, TLS, the embedded engine.

gateway.py        one route in one worker: listeners, clients, figures; the gate of its sessions
client.py         a client's connection: a session with a transport
upstream.py       a connection to Redis: a ledger with a transport
connect.py        opening one: transport, login, database
connections.py    a route's connections: how they come, and what happens when they go
lending.py        what sessions get of them, and who waits
inquiries.py      what rules ask Redis themselves, on a connection apart
pools.py, pool.py which connections are alike: by user, database and protocol
policies.py       the policy in force, compiled for what each user may run
knowledge.py      what is known of the Redis behind a route
engine.py         how that is asked
verdicts.py       what the rules said: counts, evidence, violations
pulse.py          whether Redis answers, and how fast: for circuit breakers
consultation.py   what only the supervisor knows, asked for a client
settings.py       all that the operator can set; address.py and tls.py read the parts
embedded.py       a private Redis for a first look
interpreter.py    how Keyrail starts more of itself
"""
