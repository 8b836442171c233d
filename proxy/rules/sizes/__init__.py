"""Size of one write: ``sizes: {value: 10KB}``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
