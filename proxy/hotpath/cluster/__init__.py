"""Which node a request goes to, and requests that go to several.

router.py        which node a request goes to, where a topology has several
portions.py      what each node gets of a client's read
split.py         a request with keys of several slots, as one for each slot
key_splitter.py  the same for the intake, in its pass over a read
"""
