"""What a session needs from the network side, and the values that both use.

ports.py            what a session needs from the network side
client.py           a client, as the network side sees it
client_identity.py  what a client says of itself, and where it comes from
pool_waiter.py      a session that waits, as the network side sees it
pool_key.py         what the connections of a pool have in common
keyed_pipeline.py   an upstream, and who follows its login; one that can be handed to a client
node_port.py        what a session needs to know about the nodes of a cluster, and replicas
login_port.py       what a session needs to know about logins
pause_port.py       what a session asks about times in which Redis holds writes back
open_trace.py       traces of commands: client, size, time, result
counted_keys.py     how many keys tenants had a moment ago
info_query.py       the arguments of KEYRAIL HOTKEYS and its relatives
"""
