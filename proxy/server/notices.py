"""What Keyrail says to its operator: one line on standard error for each event.

As text all lines begin alike, and whoever keeps them (journald, a container's log) adds the time. As JSON each line has
``time`` (RFC 3339, UTC), ``level`` (info, warning, error) and ``message``.
"""

import contextlib
import json
import logging
import sys
from datetime import UTC, datetime

from proxy.net.settings import LogFormat

_WARNING = "warning: "


class _JsonLines(logging.Formatter):
    """What workers log, as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        trace = {"exception": self.formatException(record.exc_info)} if record.exc_info else {}
        return _json_line(record.levelname.lower(), record.getMessage(), **trace)


class _Notices:
    """How lines are written in this process."""

    format = LogFormat.TEXT


def log_as(form: LogFormat) -> None:
    """Write all lines of this process so from now on; those of ``logging``, too."""
    _Notices.format = form
    formatter = _JsonLines() if form is LogFormat.JSON else logging.Formatter("keyrail: %(message)s")
    logging.basicConfig(level=logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter)


def notice(text: str) -> None:
    """Say one thing. A standard error that nobody reads any more is no reason to stop."""
    line = f"keyrail: {text}"
    if _Notices.format is LogFormat.JSON:
        level = "warning" if text.startswith(_WARNING) else "info"
        line = _json_line(level, text.removeprefix(_WARNING))
    with contextlib.suppress(OSError, ValueError):
        # In one piece: workers write to the same place.
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _json_line(level: str, message: str, **more: str) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": now, "level": level, "message": message, **more}, ensure_ascii=False)
