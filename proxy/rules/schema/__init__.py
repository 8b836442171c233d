"""Types, sizes, fields and TTLs of the schema: ``schema: type``, ``schema: size``, ``schema: fields``, ``schema: ttl``.

type.py     commands for another type than the schema gives a key
size.py     writes larger than the schema allows
members.py  collections larger than the schema allows
fields.py   fields of hashes that the schema does not have, or has with another type
yaml.py     reads the YAML of these, and of ``schema: ttl``, a rule of ``lifetime``
"""
