"""Which of a client's reads go to replicas, and what it has seen of its primary.

client_reads.py  which of a client's reads go to replicas, and where
reader_place.py  whether a replica has all that a client knows of its primary
"""
