"""Commands that neither Keyrail nor the engine knows: ``unknown_commands: refuse``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
