"""Reads from replicas: how far behind they are, which one is read from, and its connections.

replica_history.py      what a primary's replication offset was, and when
replica_connections.py  the connections on which clients read from replicas
replica_slot.py         the connection of one pool to one replica
replica_choice.py       which replica a client reads from
replica_watch.py        asks replicas and their primaries how far they are
watched_replicas.py     primaries and their replicas, as looks have found them
"""
