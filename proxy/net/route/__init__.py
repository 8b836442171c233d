"""One route, put together, and its figures.

route.py         one route in one worker: clients, counters, the policy in force
listeners.py     its listeners
node_figures.py  the servers behind a route in figures: nodes of a cluster, a primary and its replicas
readiness.py     whether commands reach Redis, and why not
"""
