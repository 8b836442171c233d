"""One client: its state, and where each of its commands goes. No sockets and no clock: ``ports/`` leads to them.

What stands above imports what stands below: handlers, in folders by subject, take the session.

dispatcher/           from a command that comes to the handler for it, and what needs all handlers
replicas/             reads from replicas, and reads that are sent again
cluster/              commands with a cluster upstream: to which node, to several, redirected, subscribed
logins/               HELLO, AUTH, SELECT, CLIENT SETNAME
commands/             what commands do: sent, answered from memory, pinned to a connection, surrounded by hidden ones
policy/               what the policy decides about a client's commands, and what it asks Redis for that
session.py            a client: who it is, what its sender tells it
client_waits.py       what its next command waits for
client_upstream.py    a client's connections to Redis: shared ones, or one of its own
client_link.py        a client's transport: whether it is read, what it has not taken, how it closes
progress.py           how a command goes on, waits, or is refused
item.py               one judged command, and what is to follow it
running_procedure.py  the questions of one such rule
guarded.py            faults close the client in whose session they are, and no other
state.py              the states of a client's connection, and the table of their transitions
subscription.py       what a client is subscribed to
reply_mode.py         what CLIENT REPLY has made of a connection
ports/                what a session needs from the network side, and the values that both use
"""
