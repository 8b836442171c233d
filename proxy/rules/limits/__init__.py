"""Rates, bytes, concurrency and connections: ``limits: {per: app, rate: 5000/s}``.

rule.py           the settings, and the rule: judging and lowering
token_buckets.py  what each subject of a limit has left
remedy.py         the limit that an operator puts on a key at once
yaml.py           reads its YAML
"""
