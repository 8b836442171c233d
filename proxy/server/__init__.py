"""The process group: one supervisor that owns configuration, sockets and admin HTTP, and its workers.

options.py      every option, once: its name and how its text is read
config.py       command line over environment over config file -> Settings
listeners.py    the listening sockets, bound once and kept
control.py      what supervisor and worker say to each other
leases.py       limits that several workers share
supervisor.py   start, replace, reload, stop
crew.py         the worker processes as the supervisor sees them
member.py       one of them: its process, and what it still has to answer
worker.py       the process itself: its gateways, its answers to the supervisor
findings.py     what each rule has found, as /rules tells it
briefing.py     what clients and operators can ask about the whole group
violations.py   where the violations' lines go
reload.py       the policies in force, and their all-or-none replacement
watch.py        reloads when policy files change
kill_switch.py  all enforcement but that of locked rules, off for a while
metrics.py      the workers' figures as one, for Prometheus
admin/          the admin HTTP port
"""
