"""What is counted on the hot path: uses of keys, errors, and commands to trace.

call_counts.py       counts commands by id
counters.py          counts uses of keys in fixed memory, with error bounds
counter_snapshot.py  the busiest keys of one interval, with their error bounds
error_counts.py      counts error replies by their first word
sampler.py           picks the commands to trace
"""
