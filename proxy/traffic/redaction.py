"""How a key is shown outside of the process: in logs, in samples, on the admin port.

A key can contain a name, an address or a token, so by default only its shape is shown, with a short hash that tells two
keys apart. The hash is keyed with a secret that exists only while the process group runs, so nobody can find a key by
trying hashes.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2s

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
    """How keys are shown; ``secret`` is at most 32 bytes."""

    kind: Redact = Redact.HASH
    secret: bytes = b""

    def at_least(self, kind: Redact) -> "Redaction":
        """The stricter of this and another kind."""
        return Redaction(min(self.kind, kind, key=tuple(Redact).index), self.secret)

    def of(self, key: bytes) -> str:
        """The redacted key."""
        if self.kind is Redact.SHAPE:
            return shape(key)
        if self.kind is Redact.HASH:
            return f"{shape(key)}#{blake2s(key, key=self.secret, digest_size=_HASH_BYTES).hexdigest()}"
        text = shown(key[: 4 * LONGEST])
        return text if len(text) <= LONGEST and len(key) <= 4 * LONGEST else f"{text[:LONGEST]}..."
