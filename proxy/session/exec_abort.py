"""Commands that do nothing but fail: each is refused for its arity.

Sent in place of a command inside MULTI that a rule has refused, one makes Redis itself abort the transaction around it.
Where EXEC is refused it has to be a bad EXEC, which ends the transaction as well.
"""

ABORTING_COMMAND = b"*1\r\n$3\r\nGET\r\n"
ABORTING_EXEC = b"*2\r\n$4\r\nEXEC\r\n$1\r\n-\r\n"
