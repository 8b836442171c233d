"""How much an owner may have stored: ``quota: {keys: 1M, bytes: 2GB, per: app}``.

rule.py      the settings, and the rule: judging and lowering; its part that counts what clients delete
holdings.py  what is known to be stored, by owner
yaml.py      reads its YAML
"""
