"""Size of collections: ``collections: {members: 5000}``.

caps.py  caps by key, of this guardrail and of the schema, and what several rules with caps know together
rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
