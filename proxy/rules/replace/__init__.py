"""Commands that run under another name: ``replace: {DEL: UNLINK}``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
