"""From a command that comes to the handler for it, and what needs all handlers: MULTI, streamed values, the end.

dispatcher.py   judges each command
injected.py     what a session calls of its handlers
routing.py      where a judged command goes: to memory, to a replica, or to its handler
handlers.py     the handler of each command, by what it does to its connection
refusals.py     what becomes of a command that the policy refuses, or answers by itself
transaction.py  MULTI … EXEC, whole or in pieces
streaming.py    a request too large to buffer
leaving.py      how a client begins anew, or ends: RESET, QUIT, and lost connections
n_plus_one.py   runs of single reads (N+1)
"""
