"""Policies: YAML files read, checked and compiled.

    yaml_source.py        strict YAML: every scalar is text, every value knows its line
    yaml_errors.py        YAML syntax errors in the form of all other problems
    errors.py             problems: place, found, expected; all reported at once
    fields.py             one value of a file as a duration, a range, a choice …
    globs.py              reads patterns with ``*``
    bounds.py             reads ``{default: 5m, min: 10s, max: 1d, jitter: 10%}``
    misspelt.py           suggests the known word for an unknown one
    sections/             the sections of a file
    guardrails/           the YAML of each guardrail
    apps.py               the applications of a policy, and how a client is recognised as one
    model.py              a loaded policy
    document.py           reads one file
    load.py               reads a file and what it includes -> Policy
    shipped.py            where the packaged policies are
    references.py         checks names that point from one part of a policy to another
    precedence.py         which mode a rule has for which client
    contradictions.py     rejects rules that conflict
    unapplied.py          rejects parts of the schema that no rule acts on
    unmeetable.py         rejects name rules that no key can meet
    unnamed.py            rejects key patterns that the name rules exclude
    unreachable.py        rejects rules that can never apply
    lifetimes.py          which lifetime rule leaves keys to which
    lifetime_overlaps.py  rejects lifetime rules whose keys overlap without an order
    following.py          script calls follow the rules for direct commands
    wording.py            contact and key format for refusals
    explain.py            what a policy does with a command, and why
    expectations.py       runs the tests of a policy
    schema_docs.py        the key schema as Markdown
    json_schema.py        the JSON Schema of policy files, for editors
    sketch.py             how the JSON Schema is derived from the readers
    decision.py           what a policy decides about a command, and by which steps
    compile.py            Policy + command table -> CompiledPolicy: the plan, and the judgement behind it

The packaged policies are YAML files like any other.
"""

from proxy.policy.compile import CompiledPolicy, compile_policy
from proxy.policy.decision import Decision, Hit
from proxy.policy.errors import PolicyError, Problem, Where
from proxy.policy.load import load_policy
from proxy.policy.model import TRANSPARENT, Mode, OnError, Policy
from proxy.policy.shipped import packaged

__all__ = [
    "TRANSPARENT",
    "CompiledPolicy",
    "Decision",
    "Hit",
    "Mode",
    "OnError",
    "Policy",
    "PolicyError",
    "Problem",
    "Where",
    "compile_policy",
    "load_policy",
    "packaged",
]
