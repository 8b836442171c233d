"""The keys of one database, with their TTLs."""

from __future__ import annotations

import copy
from typing import Any

from tests.simulation.replies import WRONG_TYPE, Members, Refusal

KINDS: dict[type, str] = {bytes: "string", dict: "hash", list: "list", Members: "set"}


class Database:
    """Values by key: bytes, a dict (hash), a list or Members (set). ``expires`` has milliseconds."""

    def __init__(self) -> None:
        self.values: dict[bytes, Any] = {}
        self.expires: dict[bytes, int] = {}

    def put(self, key: bytes, value: Any, expires: int | None = None) -> None:
        """An empty value is none."""
        if value is None or (not value and type(value) is not bytes):
            self.drop(key)
            return
        self.values[key] = value
        if expires is None:
            self.expires.pop(key, None)
        else:
            self.expires[key] = expires

    def drop(self, key: bytes) -> bool:
        self.expires.pop(key, None)
        return self.values.pop(key, None) is not None

    def snapshot(self, key: bytes) -> tuple[Any, int | None]:
        """A copy of what a key holds, for replicas and other nodes."""
        value = self.values.get(key)
        return value if type(value) is bytes else copy.copy(value), self.expires.get(key)

    def copied(self) -> Database:
        other = Database()
        for key in self.values:
            other.put(key, *self.snapshot(key))
        return other

    def clear(self) -> None:
        self.values.clear()
        self.expires.clear()


def of_kind(value: Any, kind: type) -> Any:
    """The value, unless it is of another type. Raises Refusal."""
    if value is not None and type(value) is not kind:
        raise Refusal(WRONG_TYPE)
    return value
