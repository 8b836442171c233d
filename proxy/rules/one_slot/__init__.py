"""Keys of several hash slots in one command or transaction: ``one_slot: true``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
