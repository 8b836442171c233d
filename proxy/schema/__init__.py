"""Key schemas: the patterns of keys, and the schema entry of a key.

    patterns.py      the pattern language: text -> Pattern
    expressions.py   regular expressions over bytes, as values
    regular_expression.py  a pattern as a regular expression over text, for JSON Schema
    globs.py         patterns with ``*``: users, client names, keys of rules
    entries.py       what a schema says about the keys of each pattern
    bounds.py        TTL bounds of an entry or a rule
    hash_fields.py   names and types of the fields of a hash
    automaton.py     all patterns of a schema -> one automaton that finds the entry of a key in one pass
    nearest.py       the entry that an unknown key was probably meant for

The compiled automaton is ``proxy.hotpath.plan.automaton``.
"""
