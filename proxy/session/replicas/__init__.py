"""Reads from replicas.

replica_reads.py  reads that replicas answer
read_retries.py   reads that a replica does not answer: they are sent again, to the primary
"""
