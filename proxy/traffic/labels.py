"""How evidence and figures name clients and moments."""

from datetime import UTC, datetime

UNKNOWN_APP = "unknown"

ClientLabel = tuple[str, ...]
"""A client: user, client name, library, host."""
Client = tuple[str, ...]
"""The app, and then a ClientLabel."""

LABEL_FIELDS = ("user", "client_name", "library", "address")


def moment(seconds: float) -> str | None:
    """A time as text: ``2026-11-21T20:12:03.123Z``; None for 0."""
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
