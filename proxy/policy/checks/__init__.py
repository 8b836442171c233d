"""Checks of a whole policy, each of which notes what it finds. One check looks at the rules and the schema together;
what is wrong with a single value its reader says.

references.py             names that point to nothing, and app files that say more than they may
contradictions.py         rules that conflict
lifetime_overlaps.py      lifetime rules whose keys overlap without an order
unused_schema.py          parts of the schema that no rule acts on
unsatisfiable_names.py    name rules that no key can meet
excluded_key_patterns.py  key patterns that the name rules exclude
unreachable_rules.py      rules that can never apply
"""
