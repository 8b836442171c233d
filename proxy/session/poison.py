"""A command that does nothing but fail.

It is refused for its arity, inside MULTI at queue time: sent in place of a command that a rule has refused, it makes
Redis itself abort the transaction around it.
"""

POISON = b"*1\r\n$3\r\nGET\r\n"
