"""What commands do: sent, answered from memory, pinned to a connection, surrounded by hidden ones.

switching.py          moves between shared upstream connections and a private one
sending.py            commands that leave, and answers of Keyrail's own
client_reply.py       CLIENT REPLY: which commands are answered
cached_answers.py     reads that are answered from memory, and the keys that all other commands hold
hidden_commands.py    hidden commands beside a client's own
follow_ups.py         hidden commands after a reply, such as EXPIRE for a new key
handler.py            what a handler of commands is
forwarding.py         commands without connection state
pinned.py             commands that need a private connection: blocking commands, WAIT, MONITOR, unknown commands …
keyrail_command.py    KEYRAIL …: commands that Keyrail answers
subscribe.py          SUBSCRIBE and its relatives, RESP2 and RESP3
script_units.py       scripts with a cluster upstream: each in a transaction of its own
tracking_prefixes.py  CLIENT TRACKING with prefixes that overlap, which Redis may answer twice
tenant_walks.py       KEYS, DBSIZE and RANDOMKEY of tenants, by a walk over their keys
tenant_flush.py       FLUSHDB of tenants, by a walk that deletes their keys
write_pauses.py       commands that wait while Redis, or Keyrail for a tenant, holds writes back
exec_abort.py         the command that makes Redis abort a transaction
"""
