"""`keyrail doctor`: looks at a Redis, a policy and this machine before any traffic, and says what will go wrong.

verb.py         the verb, and its exit status
diagnosis.py    one run: the policy, the connection, all checks
examination.py  what the checks look at: a connection, and what Redis says of itself
checks.py       the checks
"""

from proxy.cli.doctor.verb import add_verb

__all__ = ["add_verb"]
