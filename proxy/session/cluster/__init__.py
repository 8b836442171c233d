"""Commands with a cluster upstream, and those that need a connection of their own there or elsewhere.

node_of_keys.py         the node of a command's keys
node_connections.py     the connection for a command of one node of a cluster
idle_connections.py     connections for commands that must not queue behind others
unqueued_commands.py    commands that must not queue behind others: SCRIPT KILL, CLIENT UNPAUSE, CONFIG SET …
redirects.py            commands that a node has refused because of their slot, sent again
refused_commands.py     what was under way to such a node: whether each command may be sent again
all_nodes.py            commands of all nodes of a cluster
over_slots.py           commands with keys of several slots, split
blocking.py             BLPOP and its relatives with a cluster upstream
nodeless_multi.py       MULTI with a cluster upstream, until a key names its node
wait_for_replicas.py    WAIT and WAITAOF with a cluster upstream
subscription_link.py    a connection to a node that carries subscriptions of a client
subscription_places.py  on which nodes each of its subscriptions has to be
subscription_gaps.py    the times in which it misses messages
interjected.py          messages between the replies of such a client
subscriber.py           what a client with a cluster upstream is subscribed to, and on which nodes
subscribing.py          SUBSCRIBE and its relatives with a cluster upstream
over_nodes.py           commands with a cluster upstream: to which node, to several, or answered in their place
named_node.py           KEYRAIL NODE …: a command for a node of a cluster that the client names
"""
