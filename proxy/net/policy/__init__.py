"""The policies in force in a worker, what users may run, and what is counted of their verdicts.

rights.py               what users may run, as each node has told: rules send what all of them let a user run
capabilities.py         the capabilities of a route's Redis and of its users
garbage_collector.py    keeps the garbage collector away while a policy is bound
cache_scope.py          what the rules of a policy say about the local cache
command_cost.py         what a command costs Redis
command_times.py        how long each command takes there
expiries.py             asks Redis when traced keys expire
shared_rule_state.py    what rules share with other workers
policies.py             the policy in force, and how another one replaces it
policy_generation.py    one policy, bound for what each user may run and for each app
plan_compiler.py        makes plans, each once for all workers
verdicts.py             decisions of rules: counters, evidence, violations
evidence_recorder.py    verdicts and forms of commands, crossed with clients, until the supervisor takes them
command_counts.py       commands by name, and by who has sent them
tracer.py               traces of commands, and the figures made from them
supervisor_requests.py  questions to the supervisor
"""
