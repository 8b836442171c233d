"""Checks of a whole policy: rules and schema together. Each check notes its problems. The readers of single values have
checked those already.

references.py             unknown names, and app files with parts that only the platform's file may have
contradictions.py         rules that conflict
lifetime_overlaps.py      lifetime rules whose keys overlap without an order
unused_schema.py          parts of the schema that no rule acts on
faulty_tenants.py         apps that cannot be tenants
unused_zones.py           zones that no rule asks for, and rules that lack them
unsatisfiable_names.py    name rules that no key can meet
excluded_key_patterns.py  key patterns that the name rules exclude
unreachable_rules.py      rules that can never apply
"""
