"""Entries of a learnt schema. Each part is such that nothing seen is refused or changed, and can be loosened."""

import re
from dataclasses import dataclass, field

from proxy.commands.key_types import KEY_TYPES
from proxy.policy.apps import UNKNOWN
from proxy.policy_yaml.fields import write_duration
from proxy.schema.patterns import Pattern
from proxy.server.evidence.learn.facts import Facts

_SECOND = 1000
_LONGEST_TTL = 36_500 * 86_400
_LEAST_SIZE, _LEAST_MEMBERS = 1024, 16
"""Smaller limits are no standard but chance."""
_LONGEST_NAME = 40
_PLACEHOLDERS = re.compile(r"\{[^{}]*\}")
_NO_NAME = re.compile(r"[^a-z0-9]+")
_MOST_MEMBERS = 10**9 - 1
_KILO, _LARGEST = 1024, 1 << 39


@dataclass(slots=True)
class LearntEntry:
    """One pattern with all that is known of its keys. Empty parts are left out."""

    name: str
    pattern: Pattern
    facts: Facts
    apart: bool
    """Whether its keys fit nothing: no word tells them from others."""
    app: str = ""
    type: str = ""
    ttl: str = ""
    size: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    """What was learnt and then left out, since it would have refused what was seen."""

    def __post_init__(self) -> None:
        facts = self.facts
        writers = set(facts.writers) - {UNKNOWN}
        self.app = writers.pop() if len(facts.writers) == len(writers) == 1 else ""
        self.type = next(iter(facts.types)) if facts.types is not None and len(facts.types) == 1 else ""
        self.type = self.type if self.type in KEY_TYPES else ""
        self.ttl = _ttl_of(facts)
        self.size = _size_of(facts, self.type)

    def loosen(self, part: str) -> bool:
        """Loosen what refuses or changes something seen; whether anything was left to loosen."""
        if part == "ttl" and self.ttl:
            least = _least(self.facts) if "required" in self.ttl else ""
            self.dropped.append(f"ttl: {self.ttl}")
            self.ttl = f"{{{least}}}" if least else ""
        elif part == "type" and self.type:
            self.dropped.append(f"type: {self.type}")
            self.type = ""
        elif part == "size" and self.size:
            self.dropped.append(f"size: {{{', '.join(self.size)}}}")
            self.size = []
        else:
            return False
        return True


def is_covered(facts: Facts) -> bool:
    """Whether every write that may create a key states its TTL, and nothing takes it away."""
    return 0 < facts.created == facts.with_ttl and not facts.loses_ttl


def _ttl_of(facts: Facts) -> str:
    if not facts.ttls and not facts.moments:
        return "none" if facts.created and not facts.loses_ttl else ""
    if facts.moments or not facts.ttls:
        return ""
    least, most = _least(facts), -(-max(most for _, most in facts.ttls) // _SECOND)
    if is_covered(facts) and most <= _LONGEST_TTL:
        return f"{{{least}{', ' if least else ''}max: {write_duration(most)}, required: true}}"
    return f"{{{least}}}" if least else ""


def _least(facts: Facts) -> str:
    least = min(least for least, _ in facts.ttls) // _SECOND
    return f"min: {write_duration(least)}" if 1 <= least <= _LONGEST_TTL else ""


def _size_of(facts: Facts, its_type: str) -> list[str]:
    if facts.largest <= 0 or facts.largest > _LARGEST:
        return []
    most = max(facts.largest, _LEAST_SIZE)
    parts = [f"max: {_bytes(1 << (most - 1).bit_length() if most % _KILO else most)}"]
    if its_type and its_type != "string" and 0 < facts.members <= _MOST_MEMBERS:
        parts.append(f"members_per_write: {max(facts.members, _LEAST_MEMBERS)}")
    return parts


def _bytes(number: int) -> str:
    for unit in ("B", "KB", "MB"):
        if number % _KILO:
            return f"{number}{unit}"
        number //= _KILO
    return f"{number}GB"


def name_of(pattern: str) -> str:
    """A name for an entry: the words of its pattern."""
    words = _NO_NAME.sub("-", _PLACEHOLDERS.sub("-", pattern).lower()).strip("-")
    return words[:_LONGEST_NAME].strip("-") or "keys"


def unique(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken; it is taken then."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    taken.add(found)
    return found
