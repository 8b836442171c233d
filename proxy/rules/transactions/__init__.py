"""Refused transactions: ``transactions: refuse``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
