"""The facts about commands: this package is the ONE place for them.

possible_changes.py           whether bytes of a client hold a command that could change something
spec.py                       one command: arity, flags, keys, and the decisions about it
table.py                      the joined command table; ``STANDARD`` is the table of every start
generated.json                what live engines say, written by ``generate.py``
rows.py                       one row for each command: every fact that no available engine reports
row.py                        the fields of a row, and their types
recorded.py                   the records of ``generated.json``
generate.py                   builds ``generated.json``: `python -m proxy.commands.generate`
introspect.py                 reads an engine's COMMAND reply
published.py                  commands that no available engine reports, as their rows describe them
overlay.py                    connection state, lane, creation of keys and removal of TTLs, from flags and rows
replica_reads.py              which commands replicas may answer
held_by_pause.py              which commands Redis holds back while it pauses writes
over_nodes.py                 which nodes of a cluster a command goes to, and how their replies become one
keyrail_commands.py           KEYRAIL …: the commands that Keyrail itself answers
compressed_values.py          what commands mean for values that are stored compressed
tenant_commands.py            which commands tenants may send, and where names stand in requests and replies
lookup.py                     finds the command of a request (compiled)
words.py                      reads names, subcommands and options as Redis does, up to a NUL (compiled)
keys.py                       finds the keys of a request (compiled)
error_texts.py                what errors say that decides anything, who can make such a text, and what proves it
sort_patterns.py              the keys that SORT reads through BY and GET
slots.py                      the hash slot of a key
command.py                    one request as rules see it
wrapped.py                    KEYRAIL NODE …, which carries another command
values.py                     which arguments are values to store, and how many members they make
payload.py                    the size of the value in a payload of RESTORE
buckets.py                    counts and sizes, rounded up
spans.py                      how many elements a read asks for
whole_collection_commands.py  which reads return whole collections, and which commands return their sizes
creation.py                   which commands create keys
expiry.py                     how commands state a TTL
growth.py                     which commands make a collection grow
derived.py                    which commands write a collection computed from others, and its greatest size
cached_reads.py               reads whose replies a local cache can keep
equivalents.py                commands that may replace one another
key_types.py                  the types of keys that a command works on
"""
