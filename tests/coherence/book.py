"""What is known of each key while clients write it.

A slot has one key at a time, and a lock: whoever writes it holds the lock until the reply has come, so that the order
of writes is known. After a write that was not answered, the slot goes on with another key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from tests.coherence.history import Register, Version, Wrote

FIELDS = (b"f", b"g", b"h")
"""The fields of each hash."""
ROUNDED = 0.003
"""Redis counts milliseconds of a clock that it looks at when it begins a command."""


@dataclass(frozen=True, slots=True)
class Life:
    """When a TTL ends: not before ``first``, and not after ``last``."""

    first: float
    last: float

    @classmethod
    def of(cls, seconds: float, sent: float, answered: float) -> Life:
        """Of a TTL that a command has set."""
        return cls(sent + seconds - ROUNDED, answered + seconds + ROUNDED)


class Key:
    """One key: its registers by field, and its TTL. The register of a string or of a list has no field.

    Where keys may be evicted, each value may be missing from its write on. A write of some fields makes a key that has
    expired anew: then the others are missing, though the key is there.
    """

    def __init__(self, name: bytes, kind: str, *, evicted: bool) -> None:
        self.name = name
        self.kind = kind
        self.life: Life | None = None
        self._evicted = evicted
        fields = FIELDS if kind == "hash" else (b"",)
        self.registers = {each: Register(f"{name.decode()}/{each.decode()}") for each in fields}
        self._passed_by: dict[bytes, tuple[float, float]] = {}
        """By field, when the last write of other fields since its own was sent and answered."""

    def value(self, of: bytes = b"") -> bytes | None:
        """What it holds unless it has expired."""
        return next(each.value for each in reversed(self.registers[of].versions) if not each.expiry)

    def write(self, values: dict[bytes, bytes | None], sent: float, answered: float, life: Life | None) -> list[Wrote]:
        """These fields have been written, and this is its TTL from now on."""
        self._not_expired_before(answered)
        events = []
        for each, register in self.registers.items():
            if each in values:
                version = Version(values[each], sent, answered)
                register.write(version)
                events.append(Wrote(register, version))
                self._passed_by.pop(each, None)
            else:
                self._passed_by[each] = (sent, answered)
        life = self._life_if_emptied(life)
        self._live(life, sent, fields=values if life != self.life else self.registers)
        return events

    def _life_if_emptied(self, life: Life | None) -> Life | None:
        last = [register.versions[-1] for register in self.registers.values()]
        if life is None or any(version.value is not None for version in last):
            return life
        return Life(life.first, inf) if any(version.expiry for version in last) else None

    def kept_life(self, sent: float, answered: float) -> Life | None:
        """Its TTL behind a write that keeps it, and makes a key without one if it has expired."""
        if self.life is None or (answered < self.life.first and not self._evicted):
            return self.life
        return None if sent > self.life.last else Life(self.life.first, inf)

    def present(self, life: Life | None, sent: float) -> None:
        """A reply shows that it is there, and this is its TTL from now on."""
        for each, register in self.registers.items():
            passed_from, passed_to = self._passed_by.get(each, (-inf, -inf))
            while (end := register.versions[-1]).expiry and passed_to < end.begins:
                register.versions.pop()
            if end.expiry and passed_from <= end.certain:
                # The write of others has found the key, or has made it anew.
                end.certain = life.last if life else inf
        self._live(life, sent, fields=self.registers)

    def absent(self, answered: float) -> None:
        """A reply shows that it had expired, if it was there."""
        for register in self.registers.values():
            last = register.versions[-1]
            if last.expiry:
                last.certain = min(last.certain, answered)
            elif last.value is not None:
                raise AssertionError(f"{register.name} is missing, and holds {last.value!r}")
        self.life = None

    def delete(self, sent: float, answered: float) -> list[Wrote]:
        """It is gone."""
        return self.write(dict.fromkeys(self.registers), sent, answered, None)

    def vanish(self, first: float, last: float) -> None:
        """It goes at some time between, whatever it holds."""
        for register in self.registers.values():
            register.write(Version(None, first, last, expiry=True))
        self.life = None

    def unknown(self, since: float) -> None:
        """What it holds is not known any more."""
        for register in self.registers.values():
            register.known_until = min(register.known_until, since)

    def _not_expired_before(self, answered: float) -> None:
        for register in self.registers.values():
            while register.versions[-1].expiry and register.versions[-1].begins > answered:
                register.versions.pop()

    def _live(self, life: Life | None, sent: float, fields: Iterable[bytes]) -> None:
        self.life = life
        ends = Life(sent, life.last if life else inf) if self._evicted else life
        if ends is None:
            return
        for each in fields:
            register = self.registers[each]
            if register.versions[-1].value is not None:
                register.write(Version(None, ends.first, ends.last, expiry=True))


@dataclass(slots=True)
class Slot:
    """A place for one key after the other."""

    number: int
    key: Key
    generation: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Book:
    """All slots; ``abandoned`` are keys with a write that was not answered."""

    def __init__(self, kinds: Sequence[str], *, evicted: bool = False, prefix: str = "cached") -> None:
        self._evicted = evicted
        self._prefix = prefix
        self.abandoned: list[Key] = []
        self.slots = [Slot(number, self._key(number, kind, 0)) for number, kind in enumerate(kinds)]
        self.unique = 0

    def _key(self, number: int, kind: str, generation: int) -> Key:
        name = f"{self._prefix}:{number}:{generation}"
        return Key(name.encode(), kind, evicted=self._evicted)

    def value(self) -> bytes:
        """A value that was never written, of always the same length."""
        self.unique += 1
        return b"value-%010d" % self.unique

    def slots_of(self, kind: str) -> list[Slot]:
        return [slot for slot in self.slots if slot.key.kind == kind]

    def abandon(self, slot: Slot) -> None:
        """A write of the slot's key was not answered: go on with another key."""
        self.abandoned.append(slot.key)
        slot.generation += 1
        slot.key = self._key(slot.number, slot.key.kind, slot.generation)

    def everything_unknown(self, since: float) -> None:
        """Something has changed all keys, those as well that a late write may change still."""
        for key in self.abandoned:
            key.unknown(since)

    def vanish(self, first: float, last: float) -> None:
        """All keys go at some time between."""
        self.everything_unknown(first)
        for slot in self.slots:
            slot.key.vanish(first, last)
