"""Large replies, counted and never refused: ``replies: {bytes: 1MB}``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
