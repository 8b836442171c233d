"""What a team's policy says, and what becomes of it.

    yaml_source.py   YAML read strictly: every scalar is text, every value knows its line
    errors.py        problems, all reported at once
    fields.py        one value of a file as a duration, a span, a choice …
    sections/        the sections of a file, one file each
    guardrails/      the YAML of each guardrail, one file each
    apps.py          who calls
    model.py         a policy, loaded
    document.py      one file, read by itself
    load.py          a file and what it includes -> Policy
    shipped.py       where the packaged policies are
    references.py    names that point from one part of a policy to another
    precedence.py    which mode a rule has for whom
    contradictions.py   what rules of one policy may not say together
    unapplied.py     what the schema says although no rule acts on it
    lifetimes.py     which rule about lifetimes leaves keys to which; lifetime_overlaps.py: where that is an error
    wording.py       whom a refusal says to ask, and how it shows keys
    explain.py       what a policy does with a command, and why
    expectations.py  the tests that a policy carries
    schema_docs.py   the schema of keys as Markdown
    json_schema.py   what the readers take, for editors; sketch.py is how that is found out
    compile.py       Policy + command table -> CompiledPolicy: the plan, and the judgement behind it

The packaged policies are YAML files like anyone's.
"""

from proxy.policy.compile import CompiledPolicy, Decision, Hit, compile_policy
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
