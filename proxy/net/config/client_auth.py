"""The login methods of a listener."""

from enum import Enum


class ClientAuth(Enum):
    """Clients need no login, a login that Redis accepts, or a password of a file."""

    NONE = "none"
    UPSTREAM = "upstream"
    FILE = "file"


def read_client_auth(text: str) -> ClientAuth:
    """Read none or upstream. Raises ValueError."""
    if text not in (ClientAuth.NONE.value, ClientAuth.UPSTREAM.value):
        raise ValueError(f"expected none or upstream, got {text!r}")
    return ClientAuth(text)
