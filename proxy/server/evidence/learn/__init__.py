"""Evidence -> a policy that describes it and refuses nothing of it (``keyrail learn``).

learn.py     the whole: facts, patterns, text, and the check that nothing is refused
clients.py   the apps of the policy, by users and names of clients
families.py  shapes of keys -> few patterns
judging.py   judges recorded commands by a policy with every rule enforced
gather.py    what the evidence has: facts by shape, shown keys, commands by app, recorded commands
facts.py     what is known of the keys of a shape: who writes them, types, TTLs, sizes
entries.py   the schema's entries, and how each is loosened
text.py      the policy as YAML, with its evidence as comments
"""
