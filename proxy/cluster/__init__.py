"""What commands mean over the nodes of a cluster, without I/O: bytes in, bytes out.

joins.py        the replies of several nodes as one reply
own_slots.py    what nodes say of their own slots, and whether all of it stands still
scan_cursor.py  the cursor of a SCAN over several nodes, as a number
scan_walk.py    SCAN over all primaries
key_pattern.py  the patterns of KEYS and SCAN, as Redis matches them
"""
