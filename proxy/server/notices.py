"""What Keyrail says to its operator: one line on standard error for each event, all beginning alike."""

import contextlib
import sys


def notice(text: str) -> None:
    """Say one thing. A standard error that nobody reads any more is no reason to stop."""
    with contextlib.suppress(OSError, ValueError):
        # In one piece: workers write to the same place.
        sys.stderr.write(f"keyrail: {text}\n")
        sys.stderr.flush()
