"""Readers of the texts of options, from any source. Each raises ValueError with the expected and the given text."""

import re
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TypeVar

from proxy.cluster.shares import Advertised
from proxy.commands.table import STANDARD, ConnectionState
from proxy.net.config.settings import AdminSettings, Embedded, PolicyKind, PolicySource, ViolationsSettings
from proxy.net.connection.keepalive import LONGEST_IDLE
from proxy.policy.zones import ZONE_NAME
from proxy.traffic.time_series import LEAST_MEMORY
from proxy.wire.numbers import read_whole

Word = TypeVar("Word", bound=Enum)

PACKAGED_POLICIES = ("default", "observe", "cache", "strict", "agents", "tour", "bench")

_LARGEST_PORT = 65_535

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LEAST_STATE = 1 << 20
_SIZES = {
    "b": 1,
    "k": 1000,
    "kb": 1024,
    "m": 1000**2,
    "mb": 1024**2,
    "g": 1000**3,
    "gb": 1024**3,
}


def read_switch(text: str) -> bool:
    """Read on or off."""
    folded = text.lower()
    if folded in ("on", "yes", "true", "1"):
        return True
    if folded in ("off", "no", "false", "0"):
        return False
    raise ValueError(f"expected on or off, got {text!r}")


def read_embedded(text: str) -> Embedded | None:
    """Read on, off or cluster."""
    if text.lower() == Embedded.CLUSTER.value:
        return Embedded.CLUSTER
    try:
        return Embedded.SINGLE if read_switch(text) else None
    except ValueError:
        raise ValueError(f"expected on, off or cluster, got {text!r}") from None


def read_advertised(text: str) -> tuple[Advertised, ...]:
    """Read addresses such as 10.0.0.1:6380,10.0.0.2:6380; an IPv6 address stands in brackets."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):([0-9]{1,5})", part.strip())
        if match is None or not 0 < int(match[2]) <= _LARGEST_PORT:
            raise ValueError(f"expected addresses such as 10.0.0.1:6380,10.0.0.2:6380, got {text!r}")
        found.append(Advertised(match[1].strip("[]"), int(match[2])))
    if len(set(found)) < len(found):
        raise ValueError(f"an address stands there twice: {text!r}")
    return tuple(found)


def read_aliases(text: str) -> tuple[tuple[str, str], ...]:
    """Read renamed commands, such as FLUSHALL=ADMINFLUSHALL,CONFIG=ADMINCONFIG, in capitals."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"([A-Za-z.-]+) *= *([!-+\--<>-{}~]{1,128})", part.strip())
        if match is None:
            raise ValueError(f"expected renamed commands, such as FLUSHALL=ADMINFLUSHALL, got {text!r}")
        name, alias = match[1].upper(), match[2].upper()
        spec = STANDARD.find(name)
        if spec is None or spec.state is ConnectionState.KEYRAIL:
            raise ValueError(f"expected a command of Redis before '=', got {name!r}")
        if STANDARD.find(alias) is not None:
            raise ValueError(f"expected a name that is no command's own behind '=', got {alias!r}")
        found.append((spec.name, alias))
    if len({alias for _, alias in found}) < len(found):
        raise ValueError(f"a name stands for two commands: {text!r}")
    return tuple(found)


def read_seconds(text: str) -> float:
    """Read a time such as 10, 2.5, 500ms, 30s or 2m, in seconds."""
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) *(ms|s|m|h|)", text)
    if match is None:
        raise ValueError(f"expected a time such as 500ms, 30s, 2m or 10 (seconds), got {text!r}")
    return float(match[1]) * _UNITS[match[2]]


def read_positive_seconds(text: str) -> float:
    """Read a time longer than 0, in seconds."""
    seconds = read_seconds(text)
    if seconds <= 0:
        raise ValueError(f"expected a time longer than 0, got {text!r}")
    return seconds


def read_time_back(text: str) -> float:
    """Read how far back from now, such as 12h or 7d, in seconds."""
    if days := re.fullmatch(r"([1-9][0-9]{0,3})d", text):
        return int(days[1]) * 86_400.0
    try:
        return read_positive_seconds(text)
    except ValueError:
        raise ValueError(f"expected a time back from now, such as 30m, 12h or 7d, got {text!r}") from None


def read_keepalive(text: str) -> int:
    """Read a time of whole seconds that TCP keepalive takes, or 0."""
    seconds = read_seconds(text)
    if seconds and not (seconds.is_integer() and seconds <= LONGEST_IDLE):
        raise ValueError(f"expected 0, or whole seconds from 1s to {LONGEST_IDLE}s, such as 200s, got {text!r}")
    return int(seconds)


def read_size(text: str) -> int:
    """Read a size such as 8MB or 65536B, in bytes; units as in redis.conf (1k is 1000, 1kb is 1024)."""
    match = re.fullmatch(r"([0-9]{1,15}) *([A-Za-z]+)", text)
    unit = "" if match is None else match[2].lower()
    if match is None or unit not in _SIZES or int(match[1]) == 0:
        raise ValueError(f"expected a size with its unit, such as 65536B, 512KB, 8MB or 1GB, got {text!r}")
    return int(match[1]) * _SIZES[unit]


def read_traffic_memory(text: str) -> int:
    """Read the memory for the statistics of a route, in bytes."""
    size = read_size(text)
    if size < LEAST_MEMORY:
        raise ValueError(f"expected at least {LEAST_MEMORY >> 20}MB, the memory that hash slots need, got {text!r}")
    return size


def read_state_size(text: str) -> int:
    """Read the size of the evidence, in bytes."""
    size = read_size(text)
    if size < _LEAST_STATE:
        raise ValueError(f"expected at least {_LEAST_STATE >> 20}MB, got {text!r}")
    return size


def count(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` to ``most``."""

    return partial(read_whole, least=least, most=most)


def read_admin(text: str) -> AdminSettings | None:
    """Read HOST:PORT, or off."""
    if text.lower() in ("off", "no", "false"):
        return None
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:/@\s]+):([0-9]{1,5})", text)
    if match is None or int(match[2]) > 65535:
        raise ValueError(f"expected HOST:PORT or off, got {text!r}")
    return AdminSettings(match[1].strip("[]"), int(match[2]))


def read_policy(text: str) -> PolicySource:
    """Read none, the name of a packaged policy, or a file's path."""
    if text == "none":
        return PolicySource(PolicyKind.NONE, text)
    if text in PACKAGED_POLICIES:
        return PolicySource(PolicyKind.PACKAGED, text)
    if not text:
        raise ValueError(f"expected a file, none, or one of {', '.join(PACKAGED_POLICIES)}")
    return PolicySource(PolicyKind.FILE, text)


def read_zone(text: str) -> str:
    """Read the name of a zone."""
    if not ZONE_NAME.fullmatch(text):
        raise ValueError(f"expected the name of a zone, such as eu-1a, got {text!r}")
    return text


def read_violations(text: str) -> ViolationsSettings | None:
    """Read stderr, off, or a file's path."""
    if not text:
        raise ValueError("expected stderr, off or a file")
    if text == "off":
        return None
    return ViolationsSettings(None if text == "stderr" else Path(text))


def read_file(text: str) -> Path:
    """Read a file's path."""
    if not text:
        raise ValueError("expected a file")
    return Path(text)


def word_of(kind: type[Word]) -> Callable[[str], Word]:
    """Return a reader of the values of an enumeration."""
    *most, last = (each.value for each in kind)

    def read(text: str) -> Word:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"expected {', '.join(most)} or {last}, got {text!r}") from None

    return read
