"""What the schema says of keys: ``schema: type``, ``schema: size``, ``schema: ttl``.

type.py  commands for another type than the schema gives a key
size.py  writes larger than the schema allows
ttl.py   TTLs that the schema gives
yaml.py  reads the YAML of all three
"""
