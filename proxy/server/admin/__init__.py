"""The admin HTTP port, served by the supervisor: it answers while every worker and every upstream is busy or dead.

app.py         the application, its paths, its life
health.py      /healthz and /readyz
traffic.py     /hotkeys, /patterns, /slots, /clients, /slow, /traffic
incidents.py   /incidents
remedies.py    /remedies
orders.py      what the bodies of POST have in common
rules.py       /rules, /violations
events.py      /events: all that the page shows, every second
overview.py    what is in it
page/          / for browsers: the page
policy.py      /policy, its reload and the kill switch
monitoring.py  /grafana.json and /alerts.yaml
access.py      who may ask for what
"""
