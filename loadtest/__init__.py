"""How fast Keyrail is, beside direct Redis and twemproxy, and how much memory it takes.

    python -m loadtest quick     throughput, latency and CPU per command, in interleaved rounds
    python -m loadtest rules     what each rule of a policy costs
    python -m loadtest traces    what traffic statistics cost
    python -m loadtest memory    5,000 idle connections, plain and TLS; a value of 256 MB in both directions
    python -m loadtest connects  what a new client costs, and how workers share clients
    python -m loadtest soak      memory, open files and latency of each process over an hour
    python -m loadtest cluster   a cluster of three primaries, beside one Redis and Envoy's redis_proxy
    python -m loadtest local-cache   reads of hot keys that Keyrail answers from memory
    python -m loadtest staleness how late a write is seen by clients of a local cache
    python -m loadtest replicas  reads spread over two replicas, beside the same at the primary
    python -m loadtest scan      what a scan of stored keys costs Redis, and readers beside it
    python -m loadtest tenants   what the prefix of a tenant costs
    python -m loadtest logins    what the login of a short-lived client costs
    python -m loadtest reload    clients' longest wait while a large policy comes into force
    python -m loadtest publish   the figures of the last runs into the documentation

On a machine with other work, a single figure can be wrong by tens of per cent. So every target is measured in every
round, in an order that rotates. The report has the median of the rounds and of the ratios within a round, with their
spread. CPU time per command, from the kernel's scheduler, varies least. The load has its own processor, unless
``--processors together`` leaves that to the kernel, which varies the figures more than anything else.

    verbs.py        each verb: what it measures, and its page
    targets.py      direct Redis, nutcracker, Keyrail under a policy: start, address, processes
    processes.py    ports, start, stop
    placement.py    which program runs on which processor
    kernel.py       CPU time and memory of a process tree
    workloads.py    the commands, and checks of their replies
    benchmark.py    redis-benchmark
    generator.py    the load generator for command mixes, and for everything if redis-benchmark is missing
    quick.py        the rounds of targets
    rules.py        what each rule costs
    traces.py       what traffic statistics cost
    connects.py     new clients, under each policy and on two workers
    cluster.py      a cluster, Envoy before it
    local_cache.py  hot keys answered from memory, beside Redis itself
    staleness.py    a writer at Redis, readers through two workers
    replicas.py     reads from two replicas, beside the same at the primary
    scan.py         a scan beside an open-loop reader, and alone
    tenants.py      a tenant beside a client of none
    responder.py    the least that a server can do: the load generator's ceiling
    logins.py       clients that log in, checked by Redis and by a file
    memory.py       connections and large values
    reload.py       reloads of large policies
    soak.py         an hour of light load, sampled
    goals.py        the goals, and whether samples meet them
    report.py       medians and spreads, JSON and Markdown
    published.py    the figures in docs/benchmarks.md
    chart.py        README's chart
"""
