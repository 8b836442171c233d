"""Compressed values: the form in which they are stored, and replies with plain ones.

frames.py        one value: valkey-GLIDE's form for strings, Keyrail's own for fields of hashes and with dictionaries
dictionaries.py  what small values have in common
training.py      trains a dictionary, and tries it
budget.py        how many bytes one worker makes of them
making.py        a reply with its values decompressed, step by step
replies.py       the edits of replies
"""
