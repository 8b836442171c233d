"""KEYS answered through SCAN: ``keys_by_scan: {keys: 10000}``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
