"""TTLs, a default for keys without one and bounds: ``lifetime: {default: 5m, max: 1d}``.

rule.py          the rule: judging and lowering
settings.py      its settings, and those of ``schema: ttl``, which is the same rule
scope.py         which keys a lifetime rule covers
precedence.py    which lifetime rule a key falls under: the most specific
planned_ttls.py  the TTLs that plans append, and how they vary those that applications state
creations.py     hidden commands that give a new key its TTL
uses.py          hidden commands that renew a sliding TTL
wording.py       error texts
stored.py        keys that are stored already
reply_edits.py   replies to the commands that a rewrite sends instead
ttl_options.py   what happens to a key with a TTL out of bounds, or without one
ttl_commands.py  the hidden TTL commands themselves
yaml.py          reads its YAML
"""
