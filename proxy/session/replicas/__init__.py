"""Reads from replicas, and reads that are sent again.

replica_reads.py  reads that replicas answer
read_retries.py   reads that a replica does not answer: they are sent again, to the primary
moved_reads.py    reads that a paused write of another client holds up: they are sent again, on another connection
sent_again.py     what entries keep of what was sent, and the frames that still come for it
"""
