"""Size of collections: ``collections: {members: 5000}``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
