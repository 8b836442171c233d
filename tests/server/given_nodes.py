"""Nodes of a cluster as a worker tells of them."""

from __future__ import annotations

from typing import Any


def a_node(alias: str, **changes: Any) -> dict[str, Any]:
    """A primary whose id begins with its alias; ``changes`` are its other figures."""
    usual: dict[str, Any] = {
        "node": alias,
        "id": f"{alias}-id",
        "address": "h:1",
        "role": "primary",
        "primary": "",
        "slots": [],
        "open": [],
        "health": "ok",
        "lack": "",
        "lag": None,
        "lag_seconds": None,
        "serves": False,
        "pending": 0,
        "rate": 0.0,
        "connections": 1,
        "ping_ms": None,
        "info": None,
    }
    return usual | changes
