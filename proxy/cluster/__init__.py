"""What commands mean over the nodes of a cluster, without I/O: bytes in, bytes out.

joins.py            the replies of several nodes as one reply
fan_out.py          what each node is sent for one command
publishing.py       PUBLISH, and the subscribers of all nodes
split_commands.py   which commands the hot path may split by slot, and the errors if parts fail
sending.py          sends one command to several nodes, as parts of one reply
own_slots.py        what nodes say of their own slots, and whether all of it stands still
scan_cursor.py      the cursor of a SCAN over several nodes, as a number
scan_walk.py        SCAN over all primaries
scan_by_slots.py    the part of it that goes slot by slot
scan_rounds.py      what both ask, and what they answer
shares.py           how slots are shared out over the addresses of Keyrail that clients see
cluster_answers.py  CLUSTER …, READONLY and ASKING, as one Redis or as a cluster of Keyrails
own_answers.py      what Keyrail answers in place of the nodes
hidden_nodes.py     replies without the addresses of nodes
key_pattern.py      the patterns of KEYS and SCAN, as Redis matches them
notifications.py    channels and patterns of keyspace notifications
"""
