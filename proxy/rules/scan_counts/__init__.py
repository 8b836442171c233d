"""COUNT of SCAN, HSCAN, SSCAN and ZSCAN: ``scan_counts: {max: 1000}``.

rule.py  the settings, and the rule: judging and lowering
yaml.py  reads its YAML
"""
