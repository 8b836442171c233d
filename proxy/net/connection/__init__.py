"""One connection to a server: opening, TLS, keepalive, timers, and what the engine is.

upstream.py         an upstream connection: a pipeline with a transport
writing.py          how it writes: to its transport, or through somebody who looks at what leaves
own_commands.py     Keyrail's own commands on an upstream connection
slow_reader.py      closes a client that does not read its replies
connect.py          opens an upstream connection: transport, login, database
own_connections.py  the keeper of connections that no client and no pool gets
deadline.py         timers and waits that do not end early after a pause of this process
group_counts.py     what has happened in a group of workers, in memory that all of them see
followed.py         values built from files, rebuilt when the files change
info_figures.py     the numbers that INFO has about what a server stores
engine.py           engine, version and features of the Redis behind a route
asked_once.py       what many new connections need to know at one moment, asked by one of them
failures.py         failures that peers cause, counted by reason
keepalive.py        TCP keepalive of client and upstream connections
unsent.py           takes back what a closing connection has not sent yet
delayed_ack.py      acknowledges the end of a TLS handshake at once
periodic.py         tasks that repeat, also after a failure
tls.py              TLS contexts that follow their files
lacking.py          texts about commands that Redis does not have or refuses
"""
