"""The grammar of the Redis protocol, without any knowledge of commands.

request.py     finds the arguments of a request (compiled)
reply.py       finds the end of a reply (compiled)
conversion.py  converts a reply of RESP3 into one of RESP2
inline.py      inline commands
decode.py      decodes replies
encode.py      encodes requests and replies
numbers.py     numbers in text: ASCII digits only
limits.py      limits on what a client may send, and the errors beyond them
"""
