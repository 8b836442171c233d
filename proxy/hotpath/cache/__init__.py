"""Replies to reads, kept until their key changes.

cached_reads.py     a client and the reply cache: what is answered from memory, and what holds its keys
cached_requests.py  requests under which there are replies, where a client has sent others
cache_outcomes.py   why memory has no answer
cache_use.py        what a rule has answered from memory
queued_keys.py      the keys of a transaction that is open
reply_cache.py      replies to reads, kept until their key changes
cached_reply.py     what a reply cache holds: replies, their sources and keys, and the memory that they take
slot_marks.py       the slots of a cluster from whose keys replies may be kept
"""
