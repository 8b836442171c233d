"""The common parts of POST bodies: a JSON object of known keys, a time and a reason."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from aiohttp import web

from proxy.server.kill_switch import MOST_SECONDS
from proxy.server.option_readers import read_positive_seconds

LONGEST_REASON = 200
USUAL_SECONDS = 30 * 60.0


async def read_body(request: web.Request) -> str:
    """Return the body as text. Raises ValueError with the problem, or an HTTP error if it is too large or encoded."""
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise web.HTTPUnsupportedMediaType(reason="expected a body without Content-Encoding")
    try:
        return (await request.read()).decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("expected a body in UTF-8") from None
    except web.RequestPayloadError:
        raise ValueError("expected a body of the length that Content-Length says") from None


def read_order(text: str, known: Collection[str]) -> dict[str, Any]:
    """Return the object. Raises ValueError."""
    try:
        asked = json.loads(text or "{}")
    except RecursionError:
        raise ValueError("expected a JSON object, got too many levels of brackets") from None
    if not isinstance(asked, dict):
        raise ValueError("expected a JSON object")
    unknown = sorted(asked.keys() - set(known))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}, expected one of {', '.join(sorted(known))}")
    return asked


def read_time(asked: Mapping[str, Any]) -> float:
    """Return the seconds under ``for``, at most a day. Raises ValueError."""
    seconds = read_positive_seconds(str(asked["for"])) if "for" in asked else USUAL_SECONDS
    if seconds > MOST_SECONDS:
        raise ValueError(f"for: expected at most 24h, got {asked['for']}")
    return seconds


def read_reason(asked: Mapping[str, Any]) -> str:
    """Return the value of ``because``, on one line. Raises ValueError."""
    because = " ".join(str(asked.get("because", "")).split())
    if len(because) > LONGEST_REASON or not because.isprintable():
        raise ValueError(f"because: expected a line of at most {LONGEST_REASON} characters")
    return because
