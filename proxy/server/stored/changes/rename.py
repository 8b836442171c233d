"""Which keys move behind the prefix of a tenant, or out from behind it: each gets a new name in one step, and keeps its
value and its TTL.

What begins with the prefix of any tenant is that tenant's, and never moves behind another one. A key that would begin
with a tenant's prefix once it has lost this one could not be told from one that still has it, so it stays.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from proxy.cluster.key_pattern import KeyPattern
from proxy.policy.tenants import StoredNames
from proxy.rules.stored import StoredKey
from proxy.server.stored.changes.model import Wish
from proxy.server.stored.totals import Judged

_LONGEST_TTL = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Renaming:
    """Keys of the ``database`` that begin with ``old`` begin with ``new`` instead, if what follows matches the
    ``pattern``, as SCAN has it."""

    old: bytes
    new: bytes
    pattern: bytes = b"*"
    database: int = 0


class Rename:
    """The change. ``tenants`` tells whose a stored key is."""

    asks_idle = False
    asks_time = False

    def __init__(self, renaming: Renaming, tenants: StoredNames) -> None:
        self._renaming = renaming
        self._tenants = tenants
        self._fits: Callable[[bytes], bool] = KeyPattern(renaming.pattern).fits
        self._leaves_tenant = tenants.own(renaming.old) is not None

    def concerns(self, database: int, name: bytes) -> bool:
        """Whether the key begins as it has to, and is of no other tenant."""
        its = self._renaming
        if database != its.database or not name.startswith(its.old) or not self._fits(name[len(its.old) :]):
            return False
        return self._leaves_tenant or self._tenants.own(name) is None

    def picks(self, key: StoredKey, _judged: Judged, left: Counter[str]) -> bool:
        """Whether nobody could take the key for one of a tenant afterwards."""
        if self._leaves_tenant and self._tenants.own(self._renamed(key.name)) is not None:
            left["would begin with the prefix of a tenant"] += 1
            return False
        return True

    def wish(self, _database: int, key: StoredKey, _judged: Judged, _now: int, _idle: int) -> Wish | None:
        """Rename it, whatever its TTL is."""
        return Wish(key, (b"RENAMENX", key.name, self._renamed(key.name)), -1, _LONGEST_TTL)

    def _renamed(self, name: bytes) -> bytes:
        return self._renaming.new + name[len(self._renaming.old) :]
