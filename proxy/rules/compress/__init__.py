"""Values that are stored compressed, and read plain.

terms.py         what a rule says: keys, sizes, codec
rule.py          the part that compresses the values in requests
plain_values.py  the part that is on for every client: replies are decompressed, and commands that need the plain bytes
                 are answered from them or refused
answers.py       the replies to commands about the bytes of one value
sort_lookups.py  SORT, which looks up values of other keys
stored_form.py   what a stored value has to become, and what it is without the rule
yaml.py          reads the settings
"""
