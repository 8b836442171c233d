"""Reads that replicas may answer: ``replica_reads: {keys: ["catalog:*"], max_lag: 1s}``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
