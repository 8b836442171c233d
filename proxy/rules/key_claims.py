"""Keys that rules claim: of several rules whose patterns fit a key, the one with the most specific pattern acts on it.

The settings of such a guardrail have a ``claim``. The compiler tells each rule which claims may take keys
from it, and lets the more specific rule act first; nobody asks which guardrail it is.
"""

from dataclasses import dataclass
from typing import TypeAlias

Globs: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """The keys that match one of `globs`, or those that the schema's entries give to the rule (`by_schema`)."""

    globs: Globs = ()
    by_schema: bool = False
