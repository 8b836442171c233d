"""Who a client is, apart from its Redis user: the names that it gives, and its address."""

from typing import NamedTuple


class Names(NamedTuple):
    """The client's name (CLIENT SETNAME), and its library with the version (CLIENT SETINFO)."""

    client: bytes = b""
    library: bytes = b""
    version: bytes = b""


UNNAMED = Names()


class Origin(NamedTuple):
    """The listener that the client reached, its address (``HOST:PORT``), and the subject of its certificate."""

    listener: str
    address: str = ""
    certificate: str = ""

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.address.rpartition(":")[0] or self.address
