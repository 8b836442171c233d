"""Who gets in, and as which user.

logins.py         logins of clients that Redis decides, and for how long an accepted one counts
node_logins.py    logins of users on the other nodes of a cluster
password_file.py  logins of clients that a file decides
entrance.py       the pool, limits and login rules that a listener's clients begin with
"""
