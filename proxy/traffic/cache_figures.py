"""What a local cache has done: in an interval, or since the start."""

from dataclasses import dataclass, fields
from typing import Any


@dataclass(slots=True)
class CacheFigures:
    """Reads that were answered from memory (``hits``), the bytes of the replies, their ``ages`` added up, and the CPU
    time that Redis would have taken for them; ages and times are in seconds.

    What is ``audited`` was answered by Redis, as the rules about it do not enforce. ``misses`` are reads that memory
    lacked, ``fills`` replies that were fetched; ``invalidations`` are keys that Redis said have changed, and
    ``evictions`` replies that left for lack of room. Of ``touched`` keys Redis was told that they were used.
    """

    hits: int = 0
    bytes: int = 0
    saved_seconds: float = 0.0
    ages: float = 0.0
    audited_hits: int = 0
    audited_bytes: int = 0
    audited_saved_seconds: float = 0.0
    misses: int = 0
    fills: int = 0
    fills_in_vain: int = 0
    invalidations: int = 0
    evictions: int = 0
    touched: int = 0

    def add(self, more: "CacheFigures") -> None:
        """Add the other's figures."""
        for name in _NAMES:
            setattr(self, name, getattr(self, name) + getattr(more, name))

    def since(self, before: "CacheFigures") -> "CacheFigures":
        """What was added to the earlier figures."""
        return CacheFigures(*(getattr(self, name) - getattr(before, name) for name in _NAMES))

    def by_mode(self) -> dict[str, dict[str, float]]:
        """What was answered, and what would have been."""
        return {
            "enforce": {"hits": self.hits, "bytes": self.bytes, "saved_redis_seconds": round(self.saved_seconds, 6)},
            "audit": {
                "hits": self.audited_hits,
                "bytes": self.audited_bytes,
                "saved_redis_seconds": round(self.audited_saved_seconds, 6),
            },
        }

    def rates(self, seconds: float) -> dict[str, Any]:
        """The figures of so many seconds as JSON, all but ``hit_ratio`` and ``mean_age`` per second.

        ``hit_ratio`` is the part of the reads of cached keys whose reply was in memory; ``mean_age`` is that of the
        replies that were sent.
        """
        found = self.hits + self.audited_hits
        asked = found + self.misses
        return {
            **{
                mode: {name: round(figure / seconds, 6) for name, figure in figures.items()}
                for mode, figures in self.by_mode().items()
            },
            "hit_ratio": round(found / asked, 4) if asked else None,
            "mean_age": round(self.ages / self.hits, 3) if self.hits else None,
            **{name: round(getattr(self, name) / seconds, 3) for name in _RATES},
        }


_NAMES = tuple(field.name for field in fields(CacheFigures))
_RATES = ("misses", "fills", "fills_in_vain", "invalidations", "evictions")
