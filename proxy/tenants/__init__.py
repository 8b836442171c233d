"""Tenants: a prefix that is put before every name in a request, and taken off every name in its reply.

decisions.py   for each command: whether tenants may send it, and where names stand in it and in its reply
requests.py    a request with the prefix before each name
replies.py     a reply without it

All of it is without I/O: bytes in, bytes out. Which client is of which tenant, the policy says (``policy.tenants``).
"""
