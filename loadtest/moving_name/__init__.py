"""Names that lead where a measurement says, in place of DNS.

A Keyrail with this ``environment`` resolves all names by files in a folder (``sitecustomize.py``).
"""

import os
from collections.abc import Mapping
from pathlib import Path


class MovingName:
    """The addresses of a ``host`` are lines of the file of that name in a folder."""

    def __init__(self, folder: Path, host: str) -> None:
        self._file = folder / host
        self.host = host
        self.lead_to()

    def lead_to(self, *ports: int) -> None:
        """From now on the name has these ports of 127.0.0.1 as its addresses; without any, it cannot be resolved."""
        new = self._file.with_name(f"{self.host}.new")
        new.write_text("".join(f"{port}\n" for port in ports))
        new.replace(self._file)

    def resolved(self) -> int:
        """How often it has been resolved, so far."""
        count = self._file.with_name(f"{self.host}.count")
        return count.stat().st_size if count.exists() else 0


def environment(folder: Path, path: str = os.environ.get("PYTHONPATH", "")) -> Mapping[str, str]:
    """Of a Keyrail that resolves names by the files of this folder; ``path`` is where it finds its modules."""
    here = str(Path(__file__).parent)
    return {"PYTHONPATH": f"{here}{os.pathsep}{path}" if path else here, "MOVING_NAMES": str(folder)}
