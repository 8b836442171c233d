"""Clients' connections: accepting, admission, what they wait for, and when they are closed.

route_clients.py  the clients of a route, and how many commands they sent
client.py         a client connection: a session with a transport
acceptor.py       accepts clients on one listening socket
patience.py       whether a client has given up what it sent
attention.py      notes that a worker is there to accept, and finds out when it was not
worker_loads.py   how many clients each worker has, in memory that all workers see
admission.py      how many clients a worker takes
waiting.py        brings clients on that wait, a portion at a time, and forgets none
reply_timeout.py  closes clients that have waited too long for a reply
backlog.py        commands in flight and queued, and the age of the oldest
buffers.py        a limit on the sum of all client buffers
census.py         what clients have sent, and what of that waits
rounds.py         goes through all clients, a portion in each turn
idle_clients.py   closes clients that have sent no command for long
client_timeouts.py  those three, for the clients of a route
client_label.py   a client as reports name it
"""
