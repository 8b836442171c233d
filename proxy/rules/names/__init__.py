"""Key names: ``names: {segments: 2..6}``.

rule.py       the settings, and the rule: judging and lowering
faults.py     faults of a key name beyond length and characters
joint.py      several standards as one
in_schema.py  keys that the schema does not know
yaml.py       reads its YAML
"""
