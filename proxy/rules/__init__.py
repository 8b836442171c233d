"""Guardrails, each in a folder, and their shared modules.

A folder has the name of its key in a policy file. It has everything about its guardrail: the settings, the rule that
judges and lowers itself, the rule's state, and the reader of its YAML. Its tests are in the folder of the same name in
``tests/rules``.

rule.py              the interface of rules: judge(), and the plan operations that may replace it
verdict.py           the verdicts of a rule about a command
judged_by.py         what decides about a verdict: the recorded form of a command, names, or state
context.py           the client and the moment of a judgement
guardrails.py        all guardrails, by their keys
order.py             which guardrail judges before which, and why
lowering.py          one command's plan operations, collected from the rules that apply to it
plan_checks.py       what a plan checks of a request: names, schema entries, values
replica_keys.py      reads that several rules leave to replicas, for a plan
request_edits.py     the edits of a request that the plan makes for rules
listing.py           commands as policies list them
listing_yaml.py      reads them
key_globs.py         key patterns with ``*``
one_key.py           one key of Redis, whatever clients call it
key_walk.py          a walk over keys with SCAN, within a budget
key_walk_yaml.py     reads the budget
key_claims.py        keys that the most specific of several rules takes
name_language.py     key-name rules as automata
memory.py            state of rules between commands
own_scripts.py       scripts that rules send as hidden commands
other_rules.py       the other rules in force, for rules about scripts
shared_state.py      ports for state that workers share
rates.py             rates as policies and operators write them
sizes_known.py       sizes of collections that Redis reported a moment ago
stored.py            keys as Redis has them stored, and what a rule finds wrong with one
stored_sizes.py      what the size of a stored key tells of a limit
free_commands.py     commands that no limit and no breaker refuses
limit_membership.py  which limits a client is under
refusals.py          composes the error text of all refusals
known_libraries.py   libraries recognised by their keys, so that a refusal says how to exempt them

refuse/             refused commands
allow_only/         an allow list
unknown_commands/   commands that neither Keyrail nor the engine knows
read_only/          read-only mode
databases/          allowed databases
transactions/       refused transactions
one_slot/           keys of several hash slots
fan_out/            keys per command
sizes/              size of one write
values/             formats of values
ranges/             length of a range read
scan_counts/        COUNT of SCAN
keys_by_scan/       KEYS answered through SCAN
whole_collections/  HGETALL, SMEMBERS and other reads of whole collections
collections/        size of collections
replies/            large replies: counted, never refused
replace/            commands that run under another name (DEL as UNLINK)
breaker/            a circuit breaker
limits/             rates, bytes, concurrency and connections
quota/              how much an owner may have stored
names/              key names
schema/             the schema's types, sizes and TTLs
lifetime/           TTLs: a default for keys without one, and bounds
compress/           values that are stored compressed, and read plain
local_cache/        reads answered from memory
replica_reads/      reads that replicas may answer
scripts/            what scripts and functions may call

A rule is bound to one command table and to the commands that the engine accepts. After that it is pure: a command and a
context in, a verdict out.
"""
