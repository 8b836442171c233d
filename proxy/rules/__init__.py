"""Guardrails: a module each, and the types that they share.

    rule.py       what a rule is: judge(), and the plan operations that may replace it
    verdict.py    what a rule may decide about a command
    context.py    what a rule knows besides the command
    order.py      which guardrail judges before which, and why
    lowering.py   one command's plan operations, collected from the rules that apply to it
    listing.py    commands as policies list them
    key_globs.py  key patterns with ``*``
    memory.py     state of rules between commands
    refusals.py   composes the error text of all refusals
    known_libraries.py  libraries recognised by their keys, so that a refusal says how to exempt them

    refuse.py             refused commands
    allow_only.py         an allow list
    unknown_commands.py   commands that neither Keyrail nor the engine knows
    read_only.py          read-only mode
    databases.py          allowed databases
    transactions.py       refused transactions
    one_slot.py           keys of several hash slots
    fan_out.py            keys per command
    sizes.py              size of one write
    ranges.py             length of a range read
    scan_counts.py        COUNT of SCAN
    keys_by_scan.py       KEYS answered through SCAN
    whole_collections.py  HGETALL, SMEMBERS and other reads of whole collections
    sizes_known.py        sizes of collections that Redis reported a moment ago
    collections.py        size of collections
    replies.py            large replies: reported, never held back
    replace.py            commands that run under another name (DEL as UNLINK)
    breaker.py            a circuit breaker
    limits.py             rates, bytes, concurrency and connections
    meter.py              token buckets
    standing.py           which limits a client is under

    names.py          key names
    name_faults.py    what can be wrong with a key name beyond length and characters
    name_language.py  key-name rules as automata
    in_schema.py      keys that the schema does not know

    schema_type.py  commands for another type than the schema gives a key
    schema_size.py  writes larger than the schema allows
    schema_ttl.py   TTLs that the schema gives

    lifetime.py               TTLs: a default for keys without one, and bounds
    lifetime_scope.py         which keys a lifetime rule covers
    lifetime_precedence.py    which lifetime rule a key falls under: the most specific
    lifetime_of_creations.py  hidden commands that give a new key its TTL
    lifetime_of_uses.py       hidden commands that renew a sliding TTL
    lifetime_wording.py       error texts of lifetime rules
    conduct.py                what happens to a key with a TTL out of bounds, or without one
    stamps.py                 the hidden TTL commands themselves

    scripts.py           what scripts and functions may call
    script_text.py       the calls in the text of a Lua script
    script_calls.py      these calls with the keys and arguments of one run
    script_libraries.py  functions and their libraries, from FUNCTION LIST
    script_memory.py     scripts and functions that were seen
    lua_tokens.py        Lua tokens
    lua_names.py         what names in Lua code stand for
    lua_callbacks.py     functions of a library that only Redis calls

A rule is bound to one command table and to what the engine accepts, and is pure from then on: a command and a context
in, a verdict out. Its key in a policy file and how its YAML is read is the business of ``proxy.policy``.
"""
