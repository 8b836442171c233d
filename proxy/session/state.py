"""What a client's connection is in the middle of."""

from dataclasses import dataclass, field
from typing import Any

NOBODY_WATCHED: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class Transaction:
    """What has been queued: ``first`` is the client's command count at MULTI; the fates of single members of EXEC's
    array, by position, as the ledger takes them. Where one ``moves`` the client (AUTH, SELECT, HELLO), what stands
    behind EXEC waits for it. ``database`` is the one that what is queued next will run in. ``watches`` says that there
    was a WATCH before it or, in vain, within it."""

    first: int
    database: int
    fates: dict[int, tuple[int, Any]] = field(default_factory=dict)
    moves: bool = False
    watches: bool = False
