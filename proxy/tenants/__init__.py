"""Tenants: a prefix that is put before every name in a request, and taken off every name in its reply.

requests.py   a request with the prefix before each name
replies.py    a reply without it
messages.py   channels with it, messages and invalidations without it
slot_keys.py  the keys of a slot of a cluster

For each command, ``commands.tenant_commands`` says whether tenants may send it, and where names stand. All of it is
without I/O: bytes in, bytes out. Which client is of which tenant, the policy says (``policy.tenants``).
"""
