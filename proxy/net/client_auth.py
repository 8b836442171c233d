"""Whom a listener lets in."""

from enum import Enum


class ClientAuth(Enum):
    """Whom a listener lets in: anybody, who logs in at Redis, or who has a password of a file."""

    NONE = "none"
    UPSTREAM = "upstream"
    FILE = "file"


def read_client_auth(text: str) -> ClientAuth:
    """Read none or upstream. Raises ValueError."""
    if text not in (ClientAuth.NONE.value, ClientAuth.UPSTREAM.value):
        raise ValueError(f"expected none or upstream, got {text!r}")
    return ClientAuth(text)
