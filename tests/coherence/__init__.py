"""Whether a cache in the proxy is coherent: clients write and read the same keys in all ways; each read is checked.

history.py       the checker: which reads cannot have been so, from the recorded writes
book.py          what is known of each key while clients write it: its versions, and when its TTL ends it
reads.py         all ways of reading
writes.py        all ways of writing
clients.py       pools of connections that do both, and subscribers that read what a message tells them
disturbances.py  what happens to Redis and to Keyrail's connections meanwhile
wrong_cache.py   a proxy with a cache that breaks one rule, which must be found
by_hand.py       the same hunts for as many operations as wanted
"""
