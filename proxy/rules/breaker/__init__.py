"""A circuit breaker: ``breaker: {failing_for: 2s}``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
