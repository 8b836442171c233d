"""The matrix's third side: Redis answers the client's own command or a hidden one with an error.

A client is logged in as a user, so that commands can be forbidden to it: from the start, which Keyrail finds out, or
while Keyrail believes that they are allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.engines import Engine
from tests.resp import Wire

PASSWORD = "secret"
FORMS = ("plain", "transaction")

HIDDEN = ("exists", "expire", "ltrim", "type", "scan", "hlen", "scard")
"""The commands that rules send or ask by themselves, MULTI and EXEC apart."""


@dataclass(frozen=True)
class Fault:
    """The fault while a case runs: Redis is `full`, the keys have the `wrong_type`, or a user may not run the
    client's command (`main`) or what goes with it (`hidden`), be it from the start or only `later`."""

    name: str
    full: bool = False
    wrong_type: bool = False
    main: bool = False
    hidden: bool = False
    later: bool = False

    def user(self, line: str, app: str) -> str:
        """The user. A user that has all rights at first is a new one for each app: Keyrail learns its rights at the
        login."""
        if self.main:
            return f"without-{line.split(maxsplit=1)[0].lower()}"
        return "without-hidden" if self.hidden and not self.later else f"somebody-of-{app}"

    def introduce(self, engine: Engine, line: str, app: str) -> None:
        """The user's rights before the case."""
        allow(engine, self.user(line, app), but=self._forbidden(engine, line) if not self.later else ())

    @contextmanager
    def in_force(self, engine: Engine, line: str, app: str) -> Iterator[None]:
        """While the case is played, whose keys are there."""
        with engine.wire() as direct:
            if self.wrong_type:
                for key in _keys_of(direct, line):
                    direct.ask("DEL", key)
                    direct.ask("XADD", key, "1-1", "f", "v")
        if self.later:
            allow(engine, self.user(line, app), but=self._forbidden(engine, line))
        if self.full:
            engine.do("CONFIG", "SET", "maxmemory", "1")
        try:
            yield
        finally:
            if self.full:
                engine.do("CONFIG", "SET", "maxmemory", "0")
            if self.later:
                allow(engine, self.user(line, app))

    def _forbidden(self, engine: Engine, line: str) -> tuple[str, ...]:
        name = line.split(maxsplit=1)[0].lower()
        known = engine.do("COMMAND", "INFO", name) != [None]
        return ((name,) if self.main and known else ()) + (HIDDEN if self.hidden else ())


FAULTS = (
    Fault("out of memory", full=True),
    Fault("another type", wrong_type=True),
    Fault("the command is forbidden", main=True),
    Fault("hidden ones are forbidden", hidden=True),
    Fault("hidden ones are forbidden later", hidden=True, later=True),
)


def allow(engine: Engine, user: str, *, but: tuple[str, ...] = ()) -> None:
    """The user may do everything but this."""
    rights = ("on", f">{PASSWORD}", "~*", "&*", "+@all", *(f"-{name}" for name in but))
    engine.do("ACL", "SETUSER", user, *rights)


def _keys_of(direct: Wire, line: str) -> list[bytes]:
    found = direct.value("COMMAND", "GETKEYS", *line.split())
    return [key for key in found if isinstance(key, bytes)] if isinstance(found, list) else []
