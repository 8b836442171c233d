"""One client: its state, and where each of its commands goes. No sockets and no clock: ``ports.py`` leads to them.

dispatcher.py         judges each command
routing.py            where a judged command goes: to memory, to a replica, or to the handler for what it does
refusals.py           what becomes of a command that the policy refuses, or answers by itself
session.py            a client: who it is, what it waits for, what its sender tells it
guarded.py            faults close the client in whose session they are, and no other
client.py             a client, as the network side sees it
client_identity.py    what a client says of itself, and where it comes from
client_link.py        a client's transport: whether it is read, what it has not taken, how it closes
client_upstream.py    its connections to Redis: shared ones, or one of its own
judging.py            what the policy decides about a client's commands
state.py              the states of a client's connection, and the table of their transitions
pool_waiter.py        a session that waits, as the network side sees it
item.py               one judged command, and what is to follow it
pool_key.py           what the connections of a pool have in common
keyed_pipeline.py     an upstream, and who follows its login; one that can be handed to a client
ports.py              what a session needs from the network side
pause_port.py         the same, about times in which Redis holds writes back
login_port.py         the same, as far as it is about logins
node_port.py          the same, about the nodes of a cluster and replicas
sending.py            commands that leave, and answers of Keyrail's own
forwarding.py         commands without connection state
cached_answers.py     reads that are answered from memory, and the keys that all other commands hold
switching.py          moves between shared upstream connections and a private one
leaving.py            how a client begins anew, or ends: RESET, QUIT, and lost connections
handshake.py          HELLO, AUTH, SELECT
login.py              what a client may send before its login, and logins that need no connection of its own
hello.py              the options of HELLO
client_names.py       CLIENT SETNAME, GETNAME, SETINFO
replica_reads.py      reads that replicas answer
read_retries.py       reads that a replica does not answer: they are sent again, to the primary
redirects.py          commands that a node has refused because of their slot, sent again
refused_commands.py   what was under way to such a node: whether each command may be sent again
node_connections.py   the connection for a command of one node of a cluster
over_nodes.py         commands with a cluster upstream: to which node, to several, or answered in their place
all_nodes.py          commands of all nodes of a cluster
over_slots.py         commands with keys of several slots, split
named_node.py         KEYRAIL NODE …: a command for a node of a cluster that the client names
keyrail_command.py    KEYRAIL …: commands that Keyrail answers
info_query.py         the arguments of KEYRAIL HOTKEYS and its relatives
transaction.py        MULTI … EXEC, whole or in pieces
nodeless_multi.py     MULTI with a cluster upstream, until a key names its node
exec_abort.py         the command that makes Redis abort a transaction
subscribe.py          SUBSCRIBE and its relatives, RESP2 and RESP3
subscription.py       what a client is subscribed to
subscriber.py         the same with a cluster upstream: which nodes have its subscriptions
subscription_places.py  on which nodes each of them has to be
subscription_gaps.py  the times in which it misses messages
subscription_link.py  a connection to one of these nodes
interjected.py        messages between the replies of such a client
subscribing.py        SUBSCRIBE and its relatives with a cluster upstream
pinned.py             commands that need a private connection: blocking commands, WAIT, MONITOR, unknown commands …
blocking.py           BLPOP and its relatives with a cluster upstream
wait_for_replicas.py  WAIT and WAITAOF with a cluster upstream
idle_connections.py   connections for commands that must not queue behind others
write_pauses.py       commands that wait while Redis holds writes back
unqueued_commands.py  commands that must not queue behind others: SCRIPT KILL, CLIENT UNPAUSE, CONFIG SET …
scripts.py            EVAL, FCALL and their relatives: what the rules need to know about the script
script_units.py       scripts with a cluster upstream: each in a transaction of its own
procedure.py          rules that ask Redis before they decide
node_questions.py     the questions of rules with a cluster upstream: which node gets each
running_procedure.py  the questions of one such rule
streaming.py          a request too large to buffer
paying.py             byte limits for a streamed request
client_reply.py       CLIENT REPLY: which commands are answered
reply_mode.py         what CLIENT REPLY has made of a connection
hidden_commands.py    hidden commands beside a client's own
follow_ups.py         hidden commands after a reply, such as EXPIRE for a new key
n_plus_one.py         runs of single reads (N+1)
open_trace.py         traces of commands: client, size, time, result
"""
