"""Key names: ``names: {segments: 2..6}``.

rule.py       the settings, and the rule: judging and lowering
faults.py     what can be wrong with a key name beyond length and characters
joint.py      what several standards ask for together
in_schema.py  keys that the schema does not know
yaml.py       reads its YAML
"""
