"""Allowed databases: ``databases: [0, 3]``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
