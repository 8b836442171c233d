"""An allow list: ``allow_only: ["@read", SET]``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
