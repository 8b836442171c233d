"""A policy -> the ACL users of Redis that back it up, so that Redis stops who goes around Keyrail.

They are never narrower than the rules: Redis runs what Keyrail passes, and what Keyrail sends itself. They are wider
where an ACL cannot say what a rule says, and each such place is listed. Users of tenants are limited to their names,
and where an ACL cannot say that without others' names, they are narrower, which is listed, too.

versions.py      what the ACLs of each engine can say
own_commands.py  what Keyrail sends itself
scripts.py       whether scripts may call what rules refuse to clients
keys.py          the beginnings that the names of its keys must have
tenants.py       the names and commands of tenants
rights.py        the commands that rules always refuse, and the keys, for one app and for several together
words.py         rights as the words of ACL SETUSER
users.py         which apps are which users
proof.py         what to ask an engine, to prove all that
"""

from proxy.policy.acl.users import Acl, AclUser, acl_of
from proxy.policy.acl.versions import VERSIONS, Version

__all__ = ["VERSIONS", "Acl", "AclUser", "Version", "acl_of"]
