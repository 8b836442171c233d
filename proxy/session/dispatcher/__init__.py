"""From a command that comes to the handler for it, and what needs all handlers: MULTI, streamed values, the end.

dispatcher.py   judges each command
routing.py      where a judged command goes: to memory, to a replica, or to the handler for what it does
refusals.py     what becomes of a command that the policy refuses, or answers by itself
transaction.py  MULTI … EXEC, whole or in pieces
streaming.py    a request too large to buffer
leaving.py      how a client begins anew, or ends: RESET, QUIT, and lost connections
n_plus_one.py   runs of single reads (N+1)
"""
