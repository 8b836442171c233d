"""Types, sizes and TTLs of the schema: ``schema: type``, ``schema: size``, ``schema: ttl``.

type.py     commands for another type than the schema gives a key
size.py     writes larger than the schema allows
members.py  collections larger than the schema allows
yaml.py     reads the YAML of these, and of ``schema: ttl``, a rule of ``lifetime``
"""
