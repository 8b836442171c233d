"""A policy as a few closed operations for each command, and the edits that they make.

plan.py             a policy as a few closed operations per command
operations.py       these operations, as rules add them
hot_path_config.py  the parts of the policy in force for a client that the hot path needs
request_edit.py     changes of a request by the plan: closed edits, which compose
appending.py        arguments that a rewrite appends, such as a TTL
automaton.py        finds the schema entry of a key in one pass over its bytes
name_checks.py      passes requests by the names of their keys, without a rule
hash_tags.py        passes requests whose keys have the same hash tag, without a rule
schema_checks.py    passes requests by the schema entry of their keys, without a rule
value_checks.py     passes requests whose values begin as no refused format does
key_checks.py       passes requests that are none of a rule's, by keys, size and values
reply_edits.py      which replies are edited, whatever the request
replica_reads.py    which reads replicas may answer
leased_tokens.py    tokens of a rate limit
"""
