"""Guardrails: one file each, and the few types that they share.

    verdict.py    what a rule may say about a command
    context.py    what a rule may know besides the command
    rule.py       what a rule is: judge, and the plan that may judge in its place
    lowering.py   one command's plan operations, gathered from the rules that touch it
    order.py      which guardrail goes before which, and why
    listing.py    commands as policies list them
    refuse.py     commands that are refused
    allow_only.py, unknown_commands.py, read_only.py, databases.py, transactions.py
                  commands that are refused for what they are not, or for what they are
    schema_type.py  commands for another type than the schema gives a key
    schema_size.py  writes that bring more than the schema gives a key
    scripts.py, script_memory.py
                  what scripts and functions may call
    script_text.py, lua_tokens.py, lua_names.py, lua_callbacks.py
                  what the text of a script says that it calls
    script_calls.py  those calls, with the keys and arguments that the script is run with
    script_libraries.py  which library of Redis has a function
    one_slot.py   keys of several hash slots, as a cluster refuses them
    replace.py    commands that run under another name (DEL as UNLINK)
    names.py      how keys may be named; in_schema.py: and that the schema knows them
    sizes.py      how much one write may bring
    fan_out.py    how many keys one command may name
    ranges.py     how long a span of a collection may be
    scan_counts.py  how large the steps of SCAN may be
    whole_collections.py  HGETALL, SMEMBERS and their kin; sizes_known.py remembers what Redis told
    collections.py  how large a collection may grow
    replies.py    replies that are too large: noticed
    keys_by_scan.py  KEYS, answered by a walk
    breaker.py    answers in Redis's place while it fails
    limits.py     rates, bytes and connections; meter.py counts, standing.py says where a client stands
    memory.py     what rules remember from one command to the next
    lifetime.py, schema_ttl.py  how long keys live; bounds.py: what a key is given, lifetime_scope.py: which keys
    refusals.py   what an application reads when a rule refuses its command: composed in one place
    known_libraries.py  libraries known by their keys, for a refusal to say how they are exempted
    lifetime_precedence.py  which of several lifetimes holds for a key: the most specific
    lifetime_of_creations.py, lifetime_of_uses.py, stamps.py  hidden commands that give a TTL, or renew it

A rule is bound to one command table and to what the engine is known to accept, and is pure from then on: a
command and a context in, a verdict out. What a policy file calls it and how its YAML is read is the business
of ``proxy.policy``.
"""
