"""What a team's policy says, and what becomes of it.

    yaml_source.py   YAML read strictly: every scalar is text, every value knows its line
    errors.py        problems, all reported at once
    fields.py        one value of a file as a duration, a span, a choice …
    guardrails/      the YAML of each guardrail, one file each
    model.py         a policy, loaded
    load.py          a file -> Policy
    contradictions.py   what rules of one policy may not say together
    compile.py       Policy + command table -> CompiledPolicy: the plan, and the judgement behind it

The packaged policies are YAML files like anyone's; ``packaged`` says where they are.
"""

from proxy.policy.compile import CompiledPolicy, Decision, Hit, compile_policy
from proxy.policy.errors import PolicyError, Problem
from proxy.policy.load import load_policy, packaged
from proxy.policy.model import TRANSPARENT, Mode, OnError, Policy

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
    "compile_policy",
    "load_policy",
    "packaged",
]
