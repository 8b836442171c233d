"""What the operator sets: addresses, URLs and the settings of routes.

background_thread.py  what files on a file system that is away can stall
client_auth.py        the login methods of a listener
settings.py           all settings, as one frozen model
address.py            reads listen and upstream URLs
endpoint.py           where a server is to be reached
strict_url.py         the parts and options of a URL, and its secrets
sentinel_address.py   reads the Sentinels of a primary
cluster_address.py    reads the seeds of a cluster, and which address leads to a node behind NAT
interpreter.py        how Keyrail starts processes of its own program
"""
