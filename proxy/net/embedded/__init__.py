"""A private engine, for a first look and for tests.

embedded.py          a private Valkey, or a cluster of them
embedded_servers.py  the servers of an embedded engine
"""
