"""Changes stored keys, each of them only if it is still what the walk has found.

model.py     what is to be done with a key, what became of it, and what decides about both
checked.py   the commands that check a key and change it in one step, and what their replies say
node.py      changes the keys of one server while they are walked
journal.py   the file that says what was done
purge.py     which keys a purge deletes, or gives a TTL
rename.py    which keys move behind the prefix of a tenant, or out from behind it
expire.py    which keys get the TTL of a rule, and which get rid of it again
transaction.py  how a transaction of which nothing is to run ends
rewrite.py   rewrites values of one server's keys while they are walked
rewritten.py  what was rewritten, or would be
"""
