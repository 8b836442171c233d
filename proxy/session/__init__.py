"""One client: what it may do now, and what it is owed. No sockets and no clock: ``gate`` is all it knows of them.

session.py        judging and routing: where a command starts, and what brings it back
item.py           a command that has been judged
judged.py         who a client is, and what the policy decides about its commands
outlet.py         what leaves a session: commands, and answers of the proxy's own
gate.py           what a session asks of the network side
switching.py      between shared upstreams and one of its own
handshake.py      HELLO, AUTH, SELECT, RESET, QUIT
names.py          CLIENT SETNAME, GETNAME, SETINFO
own.py            KEYRAIL …: questions to the proxy itself
transaction.py    MULTI … EXEC, whole or piece by piece
subscription.py   SUBSCRIBE and its kin, RESP2 and RESP3
pinned.py         what needs an upstream of its own: blocking commands, WAIT, MONITOR, unknown commands …
procedure.py      rules that ask Redis before they decide, while their client waits
streaming.py      a request too large to collect
silence.py        CLIENT REPLY: which commands are answered at all
company.py        hidden commands that go with a client's own
follow_ups.py     hidden commands that follow, and when and where they are sent
poison.py         the command that makes Redis abort a transaction
"""
