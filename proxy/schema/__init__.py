"""Key schemas: which keys there are, by their patterns, and whose entry a key belongs to.

    expressions.py   regular expressions over bytes, as values
    patterns.py      the pattern language: text -> Pattern
    globs.py         patterns in which * stands for anything: users, client names, keys of rules
    entries.py       what a schema says of the keys of each pattern
    nearest.py       the entry that a key without one may have been meant for
    automaton.py     all patterns of a schema -> one automaton that tells the owner of a key in one pass

The walker itself is ``proxy.hotpath.automaton``, which is compiled.
"""
