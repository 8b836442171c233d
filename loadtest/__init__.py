"""How fast Keyrail is, beside direct Redis and twemproxy, and how much memory it takes.

    python -m loadtest quick     throughput, latency and CPU per command, in interleaved rounds
    python -m loadtest rules     what each rule of a policy costs
    python -m loadtest traces    what traffic statistics cost
    python -m loadtest memory    5,000 idle connections, plain and TLS; a value of 256 MB in both directions
    python -m loadtest connects  what a new client costs, and how workers share clients
    python -m loadtest soak      memory, open files and latency of each process over an hour
    python -m loadtest logins    what a client costs that logs in, asks once and leaves
    python -m loadtest reload    clients' longest wait while a large policy comes into force
    python -m loadtest publish   the figures of the last runs into the documentation

On a machine with other work, each single figure is wrong by tens of per cent. Every target is therefore measured in
every round, in an order that rotates, and the report gives the median of the rounds and of the ratios within one round,
with their spread. CPU time per command, from the kernel's scheduler, varies least. The load has a processor for itself,
unless ``--processors together`` leaves that to the kernel, which varies the figures more than anything else.

    targets.py      direct Redis, nutcracker, Keyrail under a policy: start, address, processes
    processes.py    ports, start, stop
    placement.py    who runs on which processor
    kernel.py       CPU time and memory of a process tree
    workloads.py    the commands that are sent, and what their replies must look like
    benchmark.py    redis-benchmark
    generator.py    the load generator for command mixes, and for everything where redis-benchmark is missing
    quick.py        the rounds of targets
    rules.py        what each rule costs
    traces.py       what traffic statistics cost
    connects.py     new clients, under each policy and on two workers
    logins.py       clients that log in, asked by Redis and by a file
    memory.py       connections and large values
    reload.py       reloads of large policies
    soak.py         an hour of light load, sampled
    report.py       medians, spreads, goals, JSON and Markdown
    published.py    the figures in docs/benchmarks.md
    chart.py        README's chart
"""
