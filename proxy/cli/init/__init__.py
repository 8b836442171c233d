"""`keyrail init`: asks five questions about a Redis and writes a first policy for it.

verb.py         the verb: asks, checks the policy, writes it, says what to do next
look.py         what Redis tells of itself
answers.py      the five questions, and the readers of their answers
policy_text.py  the policy that follows from the answers, in four levels
"""

from proxy.cli.init.verb import add_verb

__all__ = ["add_verb"]
