"""Key names: characters, length, segments and their kinds, banned words, hash tags, prefixes.

Every key of every command is checked, reads and writes separately if the policy says so. The command table tells which
arguments are keys. An error names the argument and its fault, and shows the key as the policy's ``redact`` allows,
since it may be personal data.

Prefixes belong to applications. The keys of a listed app must have one of its prefixes. The keys of all other clients
must have one of the default's prefixes; without a default, they must have none of the listed prefixes. SORT looks up
keys by patterns: a pattern that may lead to other apps' keys is refused.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from proxy.commands.command import Command
from proxy.commands.sort_patterns import SORTS, beginnings_of
from proxy.commands.table import Spec
from proxy.hotpath.plan.automaton import Automaton
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.name_language import automaton_of
from proxy.rules.names.faults import Banned, HashTags, Prefixes, SegmentKinds
from proxy.rules.names.in_schema import NOT_IN_SCHEMA, Membership
from proxy.rules.plan_checks import UNLIMITED, EntryCheck, NameCheck
from proxy.rules.refusals import Refusals, over, under
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.rules.verdict import PASS, Verdict
from proxy.schema.entries import Owner

_Part: TypeAlias = Prefixes | SegmentKinds | Banned | HashTags

DEFAULT_PREFIXES = "default"
"""Stands for every application without its own prefixes."""

_NOBODYS = StoredFault(Fault.NOBODYS, "does not begin with a prefix of any application")

_VISIBLE = bytes(range(0x21, 0x7F))
CHARACTERS: dict[str, bytes] = {
    "any": bytes(range(256)),
    "printable-ascii": _VISIBLE,
    "printable-utf8": _VISIBLE + bytes(range(0x80, 0x100)),
    "unquoted-ascii": _VISIBLE.translate(None, b"\"'`\\"),
    "unslashed-ascii": _VISIBLE.translate(None, b"\"'`\\/"),
    "word-ascii": b"".join((bytes(range(0x30, 0x3A)), bytes(range(0x41, 0x5B)), bytes(range(0x61, 0x7B)), b"_-.:/{}")),
}
"""The bytes that a name may have. Only ``any`` includes the space, which breaks shells and logs."""


@dataclass(frozen=True, slots=True)
class NamesSettings(RuleSettings):
    """A standard for the names of keys. Lengths are in bytes; a most of None is no limit.

    With `in_schema` a key must match an entry of the schema; with `owned` that entry must not belong to another app.
    """

    characters: str = "any"
    min_length: int = 1
    max_length: int | None = None
    separator: str = ":"
    min_segments: int = 1
    max_segments: int | None = None
    empty_segments: bool = True
    reads: bool = True
    writes: bool = True
    in_schema: bool = False
    owned: bool = False
    segment_types: tuple[str, ...] = ()
    """``any``, a kind of the schema's patterns (``int``), several (``int|uuid``), or words (``prod|staging``)."""
    banned: tuple[str, ...] = ()
    banned_segments: tuple[str, ...] = ()
    hash_tags: bool | tuple[int, ...] = True
    """Whether a name may have a hash tag, or the segments, counted from 1, that may have one."""
    banned_hash_tags: tuple[str, ...] = ()
    prefixes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """By application; ``default`` for all that are not listed."""

    def prefixes_of(self, app: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The prefixes of which an application's names must have one; if there are none, the prefixes they must not
        have."""
        listed = dict(self.prefixes)
        own = listed.get(app, listed.get(DEFAULT_PREFIXES, ()))
        return own, () if own else tuple(prefix for found in listed.values() for prefix in found)

    @property
    def counts_segments(self) -> bool:
        """Whether the standard limits segments."""
        return self.min_segments > 1 or self.max_segments is not None or not self.empty_segments

    @property
    def segments(self) -> str:
        """The allowed numbers of segments in words."""
        if self.max_segments is None:
            return f"{self.min_segments} or more"
        if self.max_segments == self.min_segments:
            return str(self.min_segments)
        return f"{self.min_segments} to {self.max_segments}"

    @property
    def by_app(self) -> bool:
        return bool(self.prefixes) or self.owned

    @property
    def only_in_schema(self) -> bool:
        """Whether the standard is only about the schema."""
        return self == NamesSettings(reads=self.reads, writes=self.writes, in_schema=True, owned=self.owned)

    @property
    def prefixes_of_apps(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple(each for each in self.prefixes if each[0] != DEFAULT_PREFIXES)

    @property
    def is_about_names(self) -> bool:
        return True

    @property
    def beyond_acl(self) -> str:
        return "an ACL knows only how names begin"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Naming":
        return Naming(name, self, wording, binding)


class Naming(Rule):
    """One standard for the names of keys."""

    def __init__(self, name: str, settings: NamesSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._settings = settings
        self._refusals = Refusals(name, wording, binding)
        self._allowed = CHARACTERS[settings.characters]
        self._separator = settings.separator.encode()
        self._counts_segments = settings.counts_segments
        self._max_length = UNLIMITED if settings.max_length is None else settings.max_length
        self._max_segments = UNLIMITED if settings.max_segments is None else settings.max_segments
        self._only_in_schema = settings.only_in_schema
        self._membership: Membership | None = None
        self._schema_check: EntryCheck | None = None
        if settings.in_schema:
            self._membership = Membership(binding.schema, binding.app, settings.owned, binding.proven)
            self._schema_check = self._membership.check(reads=settings.reads, writes=settings.writes)
        self._parts, self._language = _parts(
            settings.separator,
            settings.segment_types,
            settings.banned,
            settings.banned_segments,
            settings.hash_tags,
            settings.banned_hash_tags,
            *settings.prefixes_of(binding.app),
        )
        self._prefixes = next((part for part in self._parts if isinstance(part, Prefixes)), None)
        self._no_app = not binding.app and bool(settings.prefixes_of_apps)
        self._instead = _describe(settings, binding.app)
        self.check = NameCheck(
            allowed=bytes(byte in self._allowed for byte in range(256)),
            min_length=settings.min_length,
            max_length=self._max_length,
            separator=self._separator[0] if self._counts_segments else None,
            min_segments=settings.min_segments,
            max_segments=self._max_segments,
            empty_segments=settings.empty_segments,
            reads=settings.reads,
            writes=settings.writes,
            language=self._language,
        )
        """The check of the plan."""

    @property
    def plan_inputs(self) -> Hashable:
        """What its app's keys may be called, and which entries of the schema belong to other apps."""
        return self._settings, self._parts, self.check, self._schema_check

    def touches(self, spec: Spec) -> bool:
        """Every command that can have keys."""
        return spec.may_have_keys

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse for the first key with a fault, else PASS."""
        settings = self._settings
        membership = self._membership
        owners = () if membership is None else membership.schema.owners_of(command.keys)
        for place, key in enumerate(command.keys):
            if not (settings.writes if key.write else settings.reads):
                continue
            fault = self._fault(key.name) or ("" if membership is None else membership.fault(key.name, owners[place]))
            if fault:
                return self._refuse(command, "key", key.index, fault, None if membership is None else owners[place])
        for index, beginning in beginnings_of(command) if settings.reads else ():
            fault = self._fault_of_pattern(beginning)
            if fault:
                return self._refuse(command, "pattern", index, fault)
        return PASS

    def _fault_of_pattern(self, beginning: bytes) -> str:
        if self._settings.owned:
            return "may lead to keys that do not belong to the client's app"
        return "" if self._prefixes is None else self._prefixes.fault_of_pattern(beginning)

    def judge_stored(self, key: StoredKey) -> StoredFault | None:
        """The key's name, as if its owner wrote it now. A name that no app may write is nobody's."""
        if not self._settings.writes:
            return None
        fault = self._fault(key.name)
        if fault:
            nobodys = self._no_app and self._prefixes is not None and fault == self._prefixes.fault(key.name)
            return _NOBODYS if nobodys else StoredFault(Fault.BAD_NAME, fault)
        membership = self._membership
        if membership is None:
            return None
        owner = membership.schema.owner_of(key.name)
        # The nearest entry is left out: to find it takes longer than all else, and there may be millions of such keys.
        fault = NOT_IN_SCHEMA if owner is None else membership.fault(key.name, owner)
        return StoredFault(Fault.NOBODYS, fault) if fault else None

    @property
    def stored_faults(self) -> frozenset[Fault]:
        if not self._settings.writes:
            return frozenset()
        nobodys = self._membership is not None or (self._no_app and self._prefixes is not None)
        return frozenset({Fault.NOBODYS} if nobodys else ()) | (set() if self._only_in_schema else {Fault.BAD_NAME})

    def _fault(self, name: bytes) -> str:
        size = len(name)
        if size < self._settings.min_length:
            return f"is {_bytes(size)} long, {under(size, self._settings.min_length)}"
        if size > self._max_length:
            return f"is {_bytes(size)} long, {over(size, self._max_length)}"
        stray = name.translate(None, self._allowed)
        if stray:
            place = f"{_byte(stray[0])} at offset {name.index(stray[0])}"
            return f"contains {place}, which is not {self._settings.characters}"
        fault = self._segment_fault(name) if self._counts_segments else ""
        return fault or next((fault for part in self._parts if (fault := part.fault(name))), "")

    def _segment_fault(self, name: bytes) -> str:
        settings = self._settings
        count = name.count(self._separator) + 1
        if not settings.min_segments <= count <= self._max_segments:
            noun = "segment" if count == 1 else "segments"
            return (
                f"has {count} {noun}, and the policy requires {settings.segments}, separated by '{settings.separator}'"
            )
        if not settings.empty_segments and b"" in name.split(self._separator):
            return f"has an empty segment between its '{settings.separator}'"
        return ""

    def _refuse(self, command: Command, what: str, index: int, fault: str, owner: Owner = None) -> Verdict:
        why = f"{self._refusals.key(command, index, what)} {fault}"
        return self._refusals.of(why, self._instead, command, owner=owner)

    def judged_by(self, spec: Spec) -> JudgedBy:
        """Names, and the patterns of SORT."""
        return JudgedBy.DATA if spec.name in SORTS else JudgedBy.NAMES

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Checks of the bytes and of the owner, in every mode. A key that fails a check is judged."""
        settings = self._settings
        if spec.name in SORTS and (settings.owned or self._prefixes is not None):
            lowering.judge()
            return
        if self._schema_check is not None:
            lowering.check_entries(self._schema_check)
        if self._only_in_schema:
            return  # an empty key is in no schema either
        if self._parts and self._language is None:
            lowering.judge()
            return
        lowering.check_names(self.check)


def _byte(byte: int) -> str:
    """A byte as printable text."""
    return "a space" if byte == 0x20 else f"a {chr(byte)}" if byte in _VISIBLE else f"the byte 0x{byte:02x}"


def _bytes(size: int) -> str:
    return "1 byte" if size == 1 else f"{size} bytes"


@lru_cache(maxsize=2048)  # a policy is bound for each application and user, and mostly to the same standards
def _parts(
    separator: str,
    segment_types: tuple[str, ...],
    banned: tuple[str, ...],
    banned_segments: tuple[str, ...],
    hash_tags: bool | tuple[int, ...],
    banned_hash_tags: tuple[str, ...],
    own_prefixes: tuple[str, ...],
    foreign_prefixes: tuple[str, ...],
) -> "tuple[tuple[_Part, ...], Automaton | None]":
    """The parts that judge names beyond bytes and lengths, and their joint automaton, if there is one."""
    parts: list[_Part] = []
    if own_prefixes or foreign_prefixes:
        parts.append(Prefixes(own_prefixes, foreign_prefixes))
    if segment_types:
        parts.append(SegmentKinds(segment_types, separator))
    if banned:
        parts.append(Banned(banned))
    if banned_segments:
        parts.append(Banned(banned_segments, separator))
    if hash_tags is not True or banned_hash_tags:
        segments = () if isinstance(hash_tags, bool) else hash_tags
        parts.append(HashTags(hash_tags is True, segments, banned_hash_tags, separator))
    return tuple(parts), automaton_of(parts) if parts else None


def _describe(settings: NamesSettings, app: str) -> str:
    wanted = []
    own, _ = settings.prefixes_of(app)
    if own:
        wanted.append(f"the prefix {' or '.join(own)}")
    if settings.counts_segments:
        wanted.append(f"{settings.segments} segments separated by '{settings.separator}'")
    if settings.segment_types:
        wanted.append(f"segments like {settings.separator.join(settings.segment_types)}")
    if settings.characters != "any":
        wanted.append(f"{settings.characters} characters")
    if settings.max_length is not None:
        wanted.append(f"at most {settings.max_length} bytes")
    if settings.in_schema:
        wanted.append("a pattern of the schema")
    return f"name it with {', '.join(wanted)}" if wanted else "give it another name"
