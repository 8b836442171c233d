"""Notices to the operator: a line on standard error for each event, with its time (RFC 3339, UTC) and level.

    text    2026-11-23T06:12:03.123Z info keyrail: policies reloaded: generation 2
    json    {"time": "2026-11-23T06:12:03.123Z", "level": "info", "message": "policies reloaded: generation 2"}

``info`` is what operators may want to know, ``warning`` what they should look at, ``error`` what has failed and needs
somebody. An error that prevents the start is for the person who typed the command: as text it has neither time nor
level.

Processes of ``serve`` write from a thread: whoever reads standard error cannot stall them. ``N lines were dropped``
says so once it is read again.
"""

import atexit
import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum

from proxy.net.config.settings import LogFormat, LogLevel
from proxy.server.writer_thread import UnstallableStderr

_AGAIN_SECONDS = 60.0


class Level(StrEnum):
    """How urgent a line is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_NUMBERS = {level: logging.getLevelNamesMapping()[level.value.upper()] for level in LogLevel}


class _Lines(logging.Formatter):
    """Log records in the form of notices."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; as text, a traceback follows it."""
        trace = {"exception": self.formatException(record.exc_info)} if record.exc_info else {}
        return _line(record.levelname.lower(), record.getMessage(), **trace)


class _Notices:
    """The form of the lines of this process, and the least urgent level that is written."""

    format = LogFormat.TEXT
    least = LogLevel.INFO


def log_as(form: LogFormat) -> None:
    """Write all later lines of this process in this form; those of ``logging``, too."""
    _Notices.format = form
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("keyrail").setLevel(logging.INFO)  # the end of a problem is told, too
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Lines())


def log_from(level: LogLevel) -> None:
    """Write only lines of this level or a more urgent one from now on; those of ``logging``, too."""
    _Notices.least = level
    of_others = logging.INFO if level is LogLevel.DEBUG else max(logging.WARNING, _NUMBERS[level])
    logging.getLogger().setLevel(of_others)
    logging.getLogger("keyrail").setLevel(_NUMBERS[level])  # the end of a problem is information


def log_level() -> LogLevel:
    """The least urgent level that is written."""
    return _Notices.least


def never_wait() -> None:
    """Write all later lines to standard error from a thread; what other code writes there, too. At the end of the
    process they have a moment to be read."""
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return  # there is none, or it is in memory
    stderr = UnstallableStderr(descriptor, _dropped)
    sys.stderr = stderr
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(stderr)
    atexit.register(stderr.drain)


def _dropped(number: int) -> str:
    return _line(Level.WARNING, f"{number} lines were dropped: standard error was not read")


def notice(text: str, level: Level = Level.INFO) -> None:
    """Write one notice, unless lines of its level are not written. A closed standard error is ignored."""
    if _NUMBERS[LogLevel(level.value)] >= _NUMBERS[_Notices.least]:
        _write(_line(level, text))


class LostLines:
    """Reports that the lines of a log are lost: at first and, while that goes on, once a minute with their number. It
    reports the end, too. ``now`` is a clock in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._text = ""
        self._told = 0.0
        self._lost = 0

    def lost(self, text: str, lines: int) -> None:
        """So many lines are lost; ``text`` says why."""
        self._lost += lines
        now = self._now()
        if text == self._text and now - self._told < _AGAIN_SECONDS:
            return
        more = f" ({self._lost} lines are lost so far)" if self._text else ""
        self._text, self._told = text, now
        notice(f"{text}{more}", Level.ERROR)

    def written(self, where: str) -> None:
        """A line has been written."""
        if self._text:
            notice(f"{where} is written again; {self._lost} lines are lost", Level.WARNING)
            self._text, self._lost = "", 0


def complain(text: str) -> None:
    """Write the reason why Keyrail does not start."""
    _write(f"keyrail: {text}" if _Notices.format is LogFormat.TEXT else _line(Level.ERROR, text))


def _write(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        # In one write: workers write to the same file.
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _line(level: str, message: str, **more: str) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if _Notices.format is LogFormat.JSON:
        return json.dumps({"time": now, "level": level, "message": message, **more}, ensure_ascii=False)
    return "\n".join([f"{now} {level} keyrail: {message}", *more.values()])
