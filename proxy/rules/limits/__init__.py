"""Rates, bytes, concurrency and connections: ``limits: {per: app, rate: 5000/s}``.

rule.py           the settings, and the rule: judging and lowering
token_buckets.py  the token buckets of each subject of a limit
remedy.py         the limit of a remedy
yaml.py           reads its YAML
"""
