"""The servers behind a route, who owns a key, and what keeps connections away from other servers.

topology.py        the servers behind a route: nodes, their addresses, and who owns a key
primary.py         the topology of one primary that another server can replace
guards.py          which guard keeps the new connections of a topology away from other servers
name_guard.py      keeps connections away from servers that a name does not lead to any more
node_guard.py      keeps connections away from servers that have the address of a node, and are not that node
cluster.py         the nodes of a cluster as a topology, with stable numbers
slot_map.py        what the nodes of a cluster tell, and the map that follows
links.py           connections to servers that are asked what they know
sentinel_views.py  what Sentinels tell about a primary, and what follows from that
roles.py           asks servers whether they are primaries
known_scripts.py   the scripts that nodes of a cluster get when they come
"""
