"""Refused commands: ``refuse: [FLUSHALL]``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
