"""The code that runs for every command: a policy's plan, client intake, the upstream queue, counters.

plan.py               a policy as a few closed operations per command
hot_path_config.py    the parts of the policy in force for a client that the hot path needs
intake.py             client bytes in, runs of commands out
open_run.py           the run that is being gathered
runs.py               neighbouring commands of one client that leave together
intake_handler.py     what decides about the commands at which the intake stops
splice.py             the bytes of a run in which some commands are rewritten
request_edit.py       changes of a request by the plan: closed edits, which compose
appending.py          arguments that a rewrite appends, such as a TTL
automaton.py          finds the schema entry of a key in one pass over its bytes
schema_checks.py      passes requests by the schema entry of their keys, without a rule
reader_place.py       whether a replica has all that a client knows of its primary
replica_reads.py      which reads replicas may answer
client_reads.py       which of a client's reads go to replicas, and where
leased_tokens.py      tokens of a rate limit
command_sender.py     one client towards Redis: the only place through which its bytes leave
sender_listener.py    the client behind a command sender: what it is told, and what upstream connections ask of it
outgoing.py           the bytes on their way to Redis on one upstream connection, and who may send there
in_flight.py          the queue of pending replies: whose each one is
reply_actions.py      what becomes of a reply: forwarded, hidden, edited, joined …
upstream_pipeline.py  one upstream connection without its socket: routes each reply to its client
pipeline_listener.py  the objects that an upstream pipeline calls
router.py             which node a request goes to, where a topology has several
split.py              a request with keys of several slots, as one for each slot
key_splitter.py       the same for the intake, in its pass over a read
join.py               replies of several nodes that become one
split_join.py         the same for what the intake has split
interleaved.py        replies of several connections to one read of a client, in its order
portions.py           what each node gets of a client's read
reply_order.py        the order in which a client asked, where several sources send its replies
cached_reads.py       a client and the reply cache: what is answered from memory, and what holds its keys
reply_cache.py        replies to reads, kept until their key changes
cached_reply.py       what a reply cache holds: replies, their sources and keys, and the memory that they take
slot_marks.py         the slots of a cluster from whose keys replies may be kept
write_gate.py         whether Redis is known to hold writes back
sampler.py            picks the commands to trace
error_words.py        finds the errors that decide something, without a Python object for each
error_counts.py       counts error replies by their first word
counters.py           counts uses of keys in fixed memory, with error bounds
counter_snapshot.py   the busiest keys of one interval, with their error bounds

Modules with a ``.pxd`` beside them are compiled where a C compiler is at hand. No sockets and no YAML.
"""
