"""Keys that rules claim: if the patterns of several rules match a key, the rule with the most specific pattern acts.

The settings of these guardrails have a ``claim``. The compiler tells each rule which claims may take keys from it, and
lets the more specific rule act first. It does not depend on the guardrail.
"""

from dataclasses import dataclass
from typing import TypeAlias

Globs: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """The keys that match one of `globs`, or those that the schema's entries give to the rule (`by_schema`)."""

    globs: Globs = ()
    by_schema: bool = False
