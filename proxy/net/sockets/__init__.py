"""Sockets of Keyrail's own: plain connections are read and written without the event loop's transports.

opening.py        opens connections and takes accepted ones, in this form or the event loop's
transport.py      one connection, in place of an event loop's transport
ready_sockets.py  which sockets are ready, and what is done when all of them have been read
system_calls.py   receiving, sending and waiting, in C where this is compiled
"""
