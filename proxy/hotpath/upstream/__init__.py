"""One connection to Redis: what is sent there, and whose each reply is.

upstream_pipeline.py  one upstream connection without its socket: routes each reply to its client
in_flight.py          the queue of pending replies: whose each one is
sent_unit.py          transactions that were sent in one piece, to be sent again only as a whole
outgoing.py           the bytes on their way to Redis on one upstream connection, and who may send there
splice.py             the bytes of a run in which some commands are rewritten
reply_actions.py      what becomes of a reply: forwarded, hidden, edited, joined …
late_replies.py       replies whose edit takes several turns of the event loop
pipeline_listener.py  the objects that an upstream pipeline calls
sender_listener.py    the client behind a command sender: what it is told, and what upstream connections ask of it
error_words.py        finds the errors that decide something, without a Python object for each
write_gate.py         whether Redis is known to hold writes back
"""
