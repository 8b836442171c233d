"""Formats of values that may not be written: ``values: {refuse: [pickle, java, php]}``.

formats.py  the formats, by the bytes that a value begins and ends with
rule.py     the settings, and the rule
yaml.py     reads its YAML
"""
