"""Where a server is to be reached."""

from typing import NamedTuple


class Endpoint(NamedTuple):
    """The host and port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
