"""Lifetimes by the schema: each entry's ``ttl`` says how long its keys live. The rule is ``Lifetime``.

A key of an entry without a ``ttl``, or with ``ttl: none``, lives as long as its application says; so does a key that no
entry owns. Since an entry names its keys, lists and streams are no exception.
"""

from dataclasses import dataclass

from proxy.commands.creation import TYPES
from proxy.rules.lifetime.rule import USUAL_CONDUCT, Lifetime
from proxy.rules.lifetime.scope import Scope
from proxy.rules.lifetime.ttl_options import Conduct
from proxy.rules.rule import Binding, Wording
from proxy.schema.bounds import Bounds


@dataclass(frozen=True, slots=True)
class SchemaTtlSettings:
    """What is done about lifetimes; how long they are, the schema says."""

    conduct: Conduct = USUAL_CONDUCT

    def bind(self, name: str, wording: Wording, binding: Binding) -> Lifetime:
        places = (None, *(_bounds(entry.lifetime) for entry in binding.schema.entries))
        return Lifetime(name, Scope(binding.schema, places, frozenset(TYPES)), self.conduct, wording, binding)


def _bounds(lifetime: Bounds | None) -> Bounds | None:
    return None if lifetime is None or lifetime.permanent else lifetime
