"""What the evidence says of keys: who uses them with which commands, their types, TTLs and sizes.

Numbers of forms are rounded up (``proxy.commands.buckets``): ``EX=500`` was 257 to 500 seconds.
"""

from collections import Counter
from dataclasses import dataclass, field

from proxy.commands.buckets import least_in
from proxy.commands.command import Command
from proxy.commands.creation import creation_of
from proxy.commands.expiry import StatedExpiry, may_persist, persists, read_expiry, states_expiry
from proxy.commands.key_types import key_types_of
from proxy.commands.row import ExpiryArgument, ExpiryOptions
from proxy.commands.rows import ROWS
from proxy.commands.spec import Spec
from proxy.commands.values import brings_values
from proxy.rules.rule import takes
from proxy.traffic.command_form import parts_of

_SCALES = {"EX": 1000, "PX": 1}
_MOMENTS = frozenset({"EXAT", "PXAT"})

Span = tuple[int, int]
"""Least and most, both included."""


@dataclass(slots=True)
class Facts:
    """Of some keys. TTLs are in milliseconds. `types` is None until something tells the type; empty: there are several.

    `created` counts writes that may create the key, `with_ttl` those of them that state a TTL. `moments`: TTLs are
    stated as points in time, which forms do not tell. `loses_ttl`: some command removes or keeps TTLs, or a script may
    do anything.
    """

    commands: Counter[str] = field(default_factory=Counter)
    writers: Counter[str] = field(default_factory=Counter)
    readers: Counter[str] = field(default_factory=Counter)
    scripts: Counter[tuple[str, str]] = field(default_factory=Counter)
    types: frozenset[str] | None = None
    created: int = 0
    with_ttl: int = 0
    ttls: Counter[Span] = field(default_factory=Counter)
    moments: bool = False
    loses_ttl: bool = False
    exact_ttls: Span | None = None
    largest: int = 0
    members: int = 0

    def add(self, more: "Facts") -> None:
        """Add what is known of other keys."""
        self.commands += more.commands
        self.writers += more.writers
        self.readers += more.readers
        self.scripts += more.scripts
        self.types = _common(self.types, more.types)
        self.created += more.created
        self.with_ttl += more.with_ttl
        self.ttls += more.ttls
        self.moments |= more.moments
        self.loses_ttl |= more.loses_ttl
        self.exact_ttls = _around(self.exact_ttls, more.exact_ttls)
        self.largest = max(self.largest, more.largest)
        self.members = max(self.members, more.members)

    @property
    def uses(self) -> int:
        """How often the keys were used."""
        return self.commands.total()

    def quantile(self, share: float) -> Span:
        """The TTL below which this share of the stated TTLs lies."""
        left = share * self.ttls.total()
        for span in sorted(self.ttls):
            left -= self.ttls[span]
            if left <= 0:
                return span
        return max(self.ttls)


def _common(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return other if one is None else one if other is None else one & other


def _around(one: Span | None, other: Span | None) -> Span | None:
    return other if one is None else one if other is None else (min(one[0], other[0]), max(one[1], other[1]))


@dataclass(frozen=True, slots=True)
class Use:
    """So many commands of one app and one form."""

    app: str
    spec: Spec
    form: str
    count: int


def facts_of(use: Use, write: bool) -> Facts:
    """What these commands say of one of their keys, which they may `write`."""
    spec, name = use.spec, use.spec.name
    types = key_types_of(spec)
    told = types.written if write else types.read
    facts = Facts(Counter({spec.display: use.count}), types=told or None)
    (facts.writers if write else facts.readers)[use.app] = use.count
    row = ROWS.get(name)
    creation = creation_of(spec)
    if (row is not None and row.script is not None) or (creation is not None and creation.by_script):
        facts.scripts[use.app, spec.display] = use.count
    parts = parts_of(use.form)
    _note_ttl(facts, spec, parts, use.count)
    if write and spec.creates:
        facts.created = use.count
        facts.with_ttl = use.count if facts.ttls or facts.moments else 0
    if write and brings_values(name):
        facts.largest = parts.get("value") or parts.get("largest") or 0
        facts.members = parts.get("members") or 0
    return facts


def _note_ttl(facts: Facts, spec: Spec, parts: dict[str, int | None], count: int) -> None:
    row = ROWS.get(spec.name)
    expiry = None if row is None else row.expiry
    facts.loses_ttl = persists(spec) or "KEEPTTL" in parts or (may_persist(spec) and "PERSIST" in parts)
    facts.moments = not _MOMENTS.isdisjoint(parts) or "ABSTTL" in parts
    if isinstance(expiry, ExpiryOptions):
        for option, scale in _SCALES.items():
            _note_number(facts, parts.get(option), scale, count)
    elif isinstance(expiry, ExpiryArgument) and not expiry.moment:
        _note_number(facts, parts.get(str(expiry.argument)), expiry.scale, count)
    elif isinstance(expiry, ExpiryArgument):
        facts.moments = True
    elif expiry == "restore":
        _note_number(facts, parts.get("2"), 1, count)


def _note_number(facts: Facts, number: int | None, scale: int, count: int) -> None:
    if number is not None and number > 0:
        facts.ttls[least_in(number) * scale, number * scale] = count


def stated_ttl(command: Command, at: float) -> Span | None:
    """The lifetime that a command states, in milliseconds; `at` is when it came, in seconds since the epoch."""
    if not states_expiry(command.spec) or not takes(command.spec, len(command.argv)):
        return None
    stated = read_expiry(command)
    lifetime = stated.milliseconds(command.argv, at) if isinstance(stated, StatedExpiry) else None
    return None if lifetime is None else (lifetime, lifetime)
