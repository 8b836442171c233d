"""What watches Sentinels, clusters and names, and follows their changes.

topologies.py       which topology an upstream has, and what follows its changes
nodes.py            the nodes of a cluster as sessions see them
watch.py            looks at the servers behind a route again and again, and tells what is wrong
cluster_watch.py    asks the nodes of a cluster what it is, and follows its changes
name_watch.py       follows a DNS name to another primary
sentinel_watch.py   asks Sentinels for the primary, and follows it
other_primaries.py  finds servers that call themselves primary while the Sentinels name another one
script_exchange.py  asks other workers about scripts that they have seen
"""
