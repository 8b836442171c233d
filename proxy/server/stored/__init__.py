"""What is stored in Redis already, judged by a policy, and the scan that walks it.

judging.py     what the rules of a policy find wrong with one key, and whose key it is
compressed_keys.py  which keys are of a rule that compresses
model.py       what a scan has found
seen.py        which keys were counted, in bounded memory
totals.py      adds up what is found of each key
page.py        what is asked about the keys of a page, and what the replies say
pace.py        how fast a scan goes
node_walk.py   the walk over all keys of one server
slot_moves.py  which nodes of a cluster must be walked again
link.py        a connection to one server
node_run.py    drives the walk of one server
servers.py     which servers are walked
scanner.py     scans all servers of an upstream
json_form.py   a scan as JSON, and back
sample.py      a sample in place of a whole walk, and what it says of all keys
unfinished.py  a scan that another process can go on with
kept.py        scans that are kept in a state folder
value_sample.py  values of a rule that compresses, for a dictionary
growth.py      what grew between scans, and when memory will be full
changes/       changes keys while they are walked
"""
