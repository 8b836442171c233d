"""How a client introduces itself: HELLO, AUTH, SELECT, CLIENT SETNAME.

client_names.py  CLIENT SETNAME, GETNAME, SETINFO
hello.py         the options of HELLO
login.py         what a client may send before its login, and logins that need no connection of its own
handshake.py     HELLO, AUTH, SELECT
"""
