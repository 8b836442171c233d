"""One traced command: its client, keys, sizes, times and result.

A trace stands for ``weight`` commands (``hotpath.counting.sampler``), so every figure from traces is a sum of weights.
"""

from dataclasses import dataclass

from proxy.traffic.labels import ClientLabel

NULLS = (b"$-1\r\n", b"*-1\r\n", b"_\r\n")
"""The first lines of replies that mean "no value"."""


@dataclass(slots=True)
class Trace:
    """Sizes in bytes, times in seconds, `at` since the epoch.

    `patterns` has the schema's entry of each key, or else its shape; `writes` tells whether it may be written. If the
    reply was not measured, `first_line` is empty. `stored_in` and `stored_out` are the bytes at Redis where values are
    stored compressed, else 0.
    """

    at: float
    weight: int
    command: str
    keys: tuple[bytes, ...]
    writes: tuple[bool, ...]
    patterns: tuple[str, ...]
    app: str
    who: ClientLabel
    bytes_in: int
    bytes_out: int = 0
    stored_in: int = 0
    stored_out: int = 0
    first_line: bytes = b""
    in_proxy: float = 0.0
    at_redis: float = 0.0
    refused: bool = False

    @property
    def measured(self) -> bool:
        """Whether the reply was seen."""
        return bool(self.first_line)

    @property
    def missed(self) -> bool:
        """Whether Redis had no value for the key."""
        return self.first_line in NULLS

    @property
    def failed(self) -> bool:
        """Whether Redis answered with an error."""
        return self.first_line.startswith((b"-", b"!"))
