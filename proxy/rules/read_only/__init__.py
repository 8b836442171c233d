"""Read-only mode: ``read_only: true``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
