"""Keys per command: ``fan_out: {max: 100}``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
