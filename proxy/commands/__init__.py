"""What the proxy knows about commands: the ONE place for facts about them.

spec        one command: arity, flags, keys, and what was decided about it
generated   (JSON) what live engines and the published tables say, written by ``generate``
listed      commands that no engine at hand reports: the hand-kept input of ``generate``
overlay     what no engine says: connection state, lane, what creates keys and drops lifetimes
recorded    the generated data, read
introspect  an engine's COMMAND reply, read
payload     what a payload of RESTORE unpacks to
values      which arguments are values to be stored, and how many members they make
spans       how many elements a read asks for
wholes      which reads are about whole collections, and who tells their sizes
creation    how commands bring keys into being
expiry      how commands state a lifetime
growth      which commands make a collection grow
derived     which commands write a collection whole, made of others, and what it can have at most
twins       commands that may stand for one another
lookup      a request's command (compiled)
key_types   which types of keys a command is for
keys        a request's keys (compiled)
table       all of it joined; ``STANDARD`` is the table that every start has
command     one request apart from the wire, for rules to judge
"""
