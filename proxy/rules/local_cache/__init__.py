"""Reads of hot keys answered from memory: ``local_cache: {keys: ["product:*"], when: hot}``.

rule.py    the settings, and the rule: which keys it is about
yaml.py    reads its YAML
remedy.py  the settings of a remedy: one key
"""
