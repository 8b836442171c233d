"""A name that leads where a measurement says, in place of DNS.

A Keyrail with this ``environment`` resolves ``HOST`` by a file (``sitecustomize.py``); its other names, too.
"""

import os
from collections.abc import Mapping
from pathlib import Path

HOST = "redis.example"
FILE_VARIABLE = "MOVING_NAME"


class MovingName:
    """The addresses are lines of a file in this folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "addresses"
        self.lead_to()

    def lead_to(self, *ports: int) -> None:
        """From now on the name has these ports of 127.0.0.1 as its addresses; without any, it cannot be resolved."""
        new = self._file.with_suffix(".new")
        new.write_text("".join(f"{port}\n" for port in ports))
        new.replace(self._file)

    def environment(self, path: str = os.environ.get("PYTHONPATH", "")) -> Mapping[str, str]:
        """Of a Keyrail; ``path`` is where it finds its modules."""
        here = str(Path(__file__).parent)
        return {"PYTHONPATH": f"{here}{os.pathsep}{path}" if path else here, FILE_VARIABLE: str(self._file)}
