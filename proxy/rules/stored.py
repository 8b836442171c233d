"""Keys as Redis has them stored, and what a rule finds wrong with one."""

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as Redis has it stored.

    `type` is Redis's own word, as TYPE returns it. `ttl`: the milliseconds that it has left; None if it has no TTL.
    `memory`: its bytes by MEMORY USAGE; None if not known. `members`: its members, for a string the bytes of its
    value; None if they were not counted. `stored`: the bytes of a string that is compressed, as they are stored;
    `members` are those of the plain value then, None where the frame does not tell. None for any other key.
    `dictionary`: the name of the one that it needs then, if any.
    """

    name: bytes
    type: str
    ttl: int | None
    memory: int | None = None
    members: int | None = None
    stored: int | None = None
    dictionary: bytes = field(default=b"", kw_only=True)


class Fault(StrEnum):
    """The kinds of faults of stored keys, as ``--fail-on`` names them."""

    NO_TTL = "no-ttl"
    TTL_TOO_LONG = "ttl-too-long"
    BAD_NAME = "bad-name"
    NOBODYS = "nobodys"
    WRONG_TYPE = "wrong-type"
    TOO_LARGE = "too-large"


@dataclass(frozen=True, slots=True)
class StoredFault:
    """What a rule finds wrong with a stored key. `text` begins in lower case and never repeats the key. Not `sure`:
    only its members, which were not counted, can tell (it "may have over N"). `by`: how far it is over its limit, in
    the limit's unit; 0 if nothing is measured."""

    fault: Fault
    text: str
    sure: bool = True
    by: int = 0
