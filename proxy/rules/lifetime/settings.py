"""The settings of two rules: ``lifetime`` has keys and bounds, ``schema: ttl`` takes both from the schema. Bound to a
policy, both are a ``Lifetime``."""

from dataclasses import dataclass

from proxy.commands.creation import TYPES
from proxy.rules.key_claims import KeyClaim
from proxy.rules.lifetime.precedence import EVERY_KEY, OtherLifetimes, leaves_entry, left_keys
from proxy.rules.lifetime.rule import Lifetime
from proxy.rules.lifetime.scope import LifetimeScope
from proxy.rules.lifetime.ttl_options import TtlOptions
from proxy.rules.rule import KEY_BY_KEY, Binding, RuleSettings, Wording
from proxy.schema.bounds import Bounds

USUAL_TTL_OPTIONS = TtlOptions()
USUAL_TYPES = frozenset(TYPES) - {"list", "stream"}
"""The default types. Lists and streams are often queues and have no TTL on purpose, so a policy must name them."""


@dataclass(frozen=True, slots=True)
class LifetimeSettings(RuleSettings):
    """One set of bounds for all keys of these `types`, or for those that match one of `keys` (globs).

    The rule is not about keys of a more specific rule (``precedence``), nor about keys of schema entries with
    ``ttl: none``.
    """

    bounds: Bounds
    ttl_options: TtlOptions = USUAL_TTL_OPTIONS
    keys: tuple[str, ...] = ()
    types: frozenset[str] = USUAL_TYPES

    @property
    def globs(self) -> tuple[str, ...]:
        """Its keys as globs, at least one."""
        return self.keys or EVERY_KEY

    @property
    def expires_keys(self) -> bool:
        return True

    @property
    def claim(self) -> KeyClaim:
        return KeyClaim(self.globs)

    @property
    def takes(self) -> frozenset[str]:
        """Its keys are its own."""
        return KEY_BY_KEY

    @property
    def beyond_acl(self) -> str:
        return "an ACL knows no TTLs"

    def bind(self, name: str, wording: Wording, binding: Binding) -> Lifetime:
        others = OtherLifetimes.of(binding.beside)
        left = (leaves_entry(entry.lifetime, others) for entry in binding.schema.entries)
        places = (self.bounds, *(self.bounds if is_left else None for is_left in left))
        scope = LifetimeScope(binding.schema, places, self.types, left_keys(self.globs, others.globs))
        return Lifetime(name, scope, self.ttl_options, wording, binding)


@dataclass(frozen=True, slots=True)
class SchemaTtlSettings(RuleSettings):
    """The options of lifetimes; each schema entry's ``ttl`` says how long they are.

    The rule is not about keys of entries without a ``ttl`` or with ``ttl: none``, nor about keys that no entry owns. It
    is about all types, since each entry names its keys.
    """

    ttl_options: TtlOptions = USUAL_TTL_OPTIONS

    @property
    def expires_keys(self) -> bool:
        return True

    @property
    def is_about_schema(self) -> bool:
        return True

    @property
    def claim(self) -> KeyClaim:
        return KeyClaim(by_schema=True)

    @property
    def beyond_acl(self) -> str:
        return "an ACL knows no TTLs"

    def bind(self, name: str, wording: Wording, binding: Binding) -> Lifetime:
        places = (None, *(_bounds(entry.lifetime) for entry in binding.schema.entries))
        return Lifetime(
            name, LifetimeScope(binding.schema, places, frozenset(TYPES)), self.ttl_options, wording, binding
        )


def _bounds(lifetime: Bounds | None) -> Bounds | None:
    return None if lifetime is None or lifetime.permanent else lifetime
