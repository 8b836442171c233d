"""The admin HTTP port, served by the supervisor: it answers while every worker and every upstream is busy or dead.

app.py         the application, its paths, its life
health.py      /healthz and /readyz
traffic.py     /hotkeys
incidents.py   /incidents
rules.py       /rules
policy.py      /policy, its reload and the kill switch
monitoring.py  /grafana.json and /alerts.yaml
access.py      who may ask for what
"""
