"""`keyrail doctor`: examines a Redis, a policy and this machine before any traffic, and reports problems.

verb.py         the verb, and its exit status
diagnosis.py    one run: the policy, the connection, all checks
examination.py  the subject of the checks: a connection, and the settings of Redis
checks.py       the checks
"""

from proxy.cli.doctor.verb import add_verb

__all__ = ["add_verb"]
