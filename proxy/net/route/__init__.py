"""One route, put together, and its figures.

route.py         one route in one worker: listeners, clients, counters
node_figures.py  the servers behind a route in figures: nodes of a cluster, a primary and its replicas
readiness.py     whether commands reach Redis, and why not
"""
