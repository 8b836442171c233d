"""The local cache of a route: the connections that keep it true, and its figures.

local_caches.py                   the local cache of a route: what clients use of it, and which reads wait
cache_uses.py                     the rules about the local cache of each effective policy
cache_totals.py                   what the local cache has done, in all and by rule
missing_replies.py                replies that the local cache lacks, and reads that wait for them
earlier_commands.py               commands in flight when caching of their keys starts
commands_without_invalidation.py  commands without invalidation messages, such as SWAPDB
tracked_database.py               the replies of one database, and the connections that keep them true
tracking.py                       the connection that fills a local cache and tells it what has changed
cached_request.py                 what it asks Redis for, to answer a read from memory
cluster_slots.py                  of which slots of a cluster replies are kept, and from which node
tracking_setup.py                 how such a connection begins, and what its user may not do there
often_read.py                     which keys are hot for the local cache
"""
