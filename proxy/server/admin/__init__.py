"""The admin HTTP port, served by the supervisor: it answers while every worker and every upstream is busy or dead.

port.py        the socket, and the application that answers there
app.py         the application and all its paths
state.py       the sources of the answers
access.py      tokens, and access without them
token.py       the file of the token
health.py      /healthz and /readyz
info.py        /info
config.py      /config
log_level.py   /log_level
traffic.py     /hotkeys, /patterns, /slots, /clients, /slow, /local_cache, /traffic
local_cache.py  /local_cache
nodes.py       /nodes
incidents.py   /incidents
remedies.py    /remedies
rules.py       /rules, /violations
evidence.py    /evidence and /report
stored.py      /stored, the last scan of the state folder
schema.py      /schema, the keys that the policies know
policy.py      /policy, its reload and the kill switch
orders.py      the fields that all POST bodies share
events.py      /events: server-sent events for the page
overview.py    the event of each second
monitoring.py  /grafana.json and /alerts.yaml
page/          / for browsers: the page
"""
