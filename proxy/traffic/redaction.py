"""How a key is shown outside of the process: in logs, in samples, on the admin port.

A key can contain a name, an address or a token, so by default only its shape is shown, with a short hash that tells two
keys apart. The hash is keyed with a secret that exists only while the process group runs, so nobody can find a key by
trying hashes.

A key of a tenant has two names: the one in Redis, and the tenant's own, without the prefix. Operators see both.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2s
from typing import Any

from proxy.traffic.key_text import shown
from proxy.traffic.shapes import shape

_HASH_BYTES = 4
LONGEST = 128
"""Characters of a key that are shown as they are."""


class Redact(StrEnum):
    """The forms in which a key is shown, the least detailed first."""

    SHAPE = "shape"
    """Its shape alone."""
    HASH = "hash"
    """Its shape and a short keyed hash."""
    NONE = "none"
    """The key itself, in printable characters; a long key is cut."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """How keys are shown; ``secret`` is at most 32 bytes.

    ``own`` returns the tenant's own name for a key of Redis, and the tenant's app, "" if the key does not tell it; None
    for a key of no tenant. It is None where there are no tenants.
    """

    kind: Redact = Redact.HASH
    secret: bytes = b""
    own: Callable[[bytes], tuple[bytes, str] | None] | None = None

    def at_least(self, kind: Redact) -> "Redaction":
        """The stricter of this and another kind."""
        return replace(self, kind=min(self.kind, kind, key=tuple(Redact).index))

    def of(self, key: bytes) -> str:
        """The redacted key."""
        if self.kind is Redact.SHAPE:
            return shape(key)
        if self.kind is Redact.HASH:
            return f"{shape(key)}#{blake2s(key, key=self.secret, digest_size=_HASH_BYTES).hexdigest()}"
        text = shown(key[: 4 * LONGEST])
        return text if len(text) <= LONGEST and len(key) <= 4 * LONGEST else f"{text[:LONGEST]}..."

    def tenant_of(self, key: bytes) -> dict[str, Any] | None:
        """The tenant of a key of Redis, and its own name for it, as JSON has them; None if it is of none."""
        found = None if self.own is None else self.own(key)
        return None if found is None else {"app": found[1] or None, "key": self.of(found[0])}

    def beside(self, key: bytes, name: str = "tenant") -> dict[str, Any]:
        """The field that stands beside the redacted key in a JSON object; none where there are no tenants."""
        return {} if self.own is None else {name: self.tenant_of(key)}

    def in_words(self, key: bytes) -> str:
        """The redacted key in a line of text, with the name that its tenant knows."""
        return self.of(key) + of_tenant(self.tenant_of(key))


def of_tenant(tenant: dict[str, Any] | None) -> str:
    """What a line of text says behind a key of this tenant: `` (cart:1 of tenant acme)``."""
    if tenant is None:
        return ""
    return f" ({tenant['key']} of {'a tenant' if tenant['app'] is None else 'tenant ' + tenant['app']})"
