"""HGETALL, SMEMBERS and other reads of whole collections: ``whole_collections: {max: 100}``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
