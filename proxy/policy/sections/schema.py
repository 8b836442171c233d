"""``schema: {cart: {key: "cart:{user:int}", type: hash, ttl: {default: 2h, max: 7d, sliding: true}, about: …}}``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from proxy.commands.key_types import KEY_TYPES
from proxy.policy.sections.exceptions import read_word
from proxy.policy_yaml import yaml_source
from proxy.policy_yaml.bounds import read_bounds
from proxy.policy_yaml.errors import Where, shown
from proxy.policy_yaml.fields import (
    Fields,
    choice,
    integer,
    read_duration,
    read_fields,
    read_line,
    read_list,
    read_mapping,
    read_size,
)
from proxy.policy_yaml.globs import read_key_pattern
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value
from proxy.schema.automaton import Flaw, SchemaError, Tie, TooLarge, Unreachable
from proxy.schema.bounds import Bounds
from proxy.schema.entries import NO_SCHEMA, KeyEntry, KeySize, Schema
from proxy.schema.hash_fields import FieldType, HashFields
from proxy.schema.patterns import Pattern, PatternError, parse_pattern
from proxy.traffic.key_text import shown as shown_key

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")
_MOST_MEMBERS = 10**9 - 1
_PERMANENT = "none"


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """An entry, and the places of its key and its other parts (``ttl``, ``type``, ``size`` …) in a file."""

    entry: KeyEntry
    where: Where
    parts: Mapping[str, Where] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path of its key in the file."""
        return self.path_of("key")

    def path_of(self, part: str) -> str:
        """The path of one of its parts."""
        return f"schema.{self.entry.name}.{part}"

    def line_of(self, part: str) -> Where:
        """The place of one of its parts, or of its key."""
        return self.parts.get(part, self.where)


def read_schema(value: Value, app: str, problems: Problems) -> tuple[PlacedEntry, ...]:
    """The entries of one file; with an `app`, that app owns their keys."""
    mapping = read_mapping(value, problems)
    if mapping is None:
        return ()
    placed = []
    for name, body in mapping.entries.items():
        if not _NAME.fullmatch(name):
            expected = "a name of lower-case letters, digits, hyphens and underscores, at most 64"
            problems.add(mapping.keys[name], f"{mapping.path}.{name}", shown(name), expected)
        fields = read_fields(body, problems)
        if fields is not None:
            placed.append(_read_entry(name, fields, app))
    return tuple(each for each in placed if each is not None)


def _read_entry(name: str, fields: Fields, app: str) -> PlacedEntry | None:
    key = fields.take("key")
    if fields.lacks("key"):
        expected = "a pattern of keys, such as cart:{user:int}"
        fields.problems.add(fields.where, fields.path_of("key"), "nothing", expected)
    pattern = None if key is None else _read_pattern(key, fields.problems)
    key_type = fields.read("type", choice({each: each for each in KEY_TYPES}), "")
    ttl, size = fields.take("ttl"), fields.take("size")
    lifetime = None if ttl is None else _read_lifetime(ttl, fields.problems)
    most = None if size is None else _read_size(size, fields.problems)
    if most is not None:
        _check_size(most, key_type, fields)
    about = fields.read("about", read_line, "")
    owner = app or fields.read("app", read_word, "")
    example = fields.read("example", read_line, "")
    named = fields.take("fields")
    its_fields = None if named is None else _read_hash_fields(named, fields.problems)
    if named is not None and key_type not in {"", "hash"}:
        fields.problems.add(fields.line_of("fields"), fields.path_of("fields"), f"fields of a {key_type}", "type: hash")
    related = fields.take("relates_to")
    relates_to = () if related is None else tuple(each.text for each in read_list(related, fields.problems) or ())
    fields.finish()
    if pattern is None:
        return None
    where = fields.line_of("key")
    parts = {part: fields.line_of(part) for part in ("ttl", "type", "size", "example", "fields", "relates_to")}
    said = key_type or None, lifetime, most, about, owner, example, relates_to, its_fields
    entry = KeyEntry(name, pattern, *said, place=str(where))
    return PlacedEntry(entry, where, parts)


def _read_pattern(value: Value, problems: Problems) -> Pattern | None:
    if note(value, type="string") or not isinstance(value, Scalar):
        problems.unexpected(value, "a pattern of keys, such as cart:{user:int}")
        return None
    try:
        return parse_pattern(value.text)
    except PatternError as error:
        found = f"{shown(value.text)} at character {error.offset + 1}"
        problems.add(value.where, value.path, found, error.expected)
        return None


def _read_lifetime(value: Value, problems: Problems) -> Bounds | None:
    """``none``, a default, or a mapping of bounds."""
    note(value, enum=[_PERMANENT])
    if isinstance(value, Scalar):
        if value.text == _PERMANENT:
            return Bounds()
        default = read_duration(value, problems)
        return None if default is None else Bounds(default=default)
    fields = read_fields(value, problems) if isinstance(value, yaml_source.Mapping) else None
    if fields is None:
        problems.unexpected(value, "none, a time such as 5m, or a mapping such as {default: 5m, max: 1d}")
        return None
    bounds = read_bounds(fields)
    if bounds.permanent and not any(key in fields for key in ("default", "min", "max")):
        fields.problems.add(fields.where, fields.path, "no lifetime", "default, min, max or required; or ttl: none")
    fields.finish()
    return bounds


def _read_size(value: Value, problems: Problems) -> KeySize | None:
    """The most bytes of a value, or a mapping with the most members, too."""
    if isinstance(value, Scalar):
        most = read_size(value, problems)
        return None if most is None else KeySize(most)
    fields = read_fields(value, problems) if isinstance(value, yaml_source.Mapping) else None
    if fields is None:
        problems.unexpected(value, "a size such as 10KB, or a mapping such as {max: 10KB, members: 5000}")
        return None
    size = KeySize(
        fields.maybe("max", read_size),
        fields.maybe("members", integer(1, _MOST_MEMBERS)),
        fields.maybe("members_per_write", integer(1, _MOST_MEMBERS)),
        fields.read("lists", choice({"refuse": False, "trim": True}), False),
        fields.read("unknown", choice({"pass": True, "refuse": False}), True),
    )
    if not any(key in fields for key in ("max", "members", "members_per_write")):
        problems.unexpected(value, "at least one of max, members, members_per_write")
    for key in ("lists", "unknown"):
        if key in fields and "members" not in fields:
            expected = "members beside it: the most that a collection may have"
            problems.add(fields.line_of(key), fields.path_of(key), "this", expected)
    fields.finish()
    return size


def _read_hash_fields(value: Value, problems: Problems) -> HashFields | None:
    """Names of fields, or patterns with ``*``, and their types."""
    mapping = read_mapping(value, problems)
    if mapping is None:
        return None
    if not mapping.entries:
        problems.unexpected(mapping, "fields such as {name: string, age: int}")
    types = []
    for name, its in mapping.entries.items():
        named = read_key_pattern(Scalar(name, mapping.keys[name], f"{mapping.path}.{name}"), problems)
        kind = choice({each.value: each for each in FieldType})(its, problems)
        if named is not None and kind is not None:
            types.append((named, kind))
    return HashFields(tuple(types))


def _check_size(size: KeySize, key_type: str, fields: Fields) -> None:
    """Note what has no effect: members of a string, lists of another type, and more members in a write than in all."""
    members, per_write = size.most_members, size.members_per_write

    def note_fault(key: str, found: str, expected: str) -> None:
        fields.problems.add(fields.line_of("size"), fields.path_of(f"size.{key}"), found, expected)

    if key_type == "string" and (members is not None or per_write is not None):
        note_fault("members_per_write" if members is None else "members", "members of a string", "max alone, in bytes")
    elif size.trims and key_type not in {"", "list"}:
        note_fault("lists", f"lists, of a {key_type}", "type: list, or no type")
    elif members is not None and per_write is not None and per_write >= members:
        note_fault("members_per_write", str(per_write), f"less than members ({members}), which one write may bring")


def join_schema(placed: tuple[PlacedEntry, ...], problems: Problems) -> Schema:
    """One schema of the entries of all files, NO_SCHEMA without entries; notes ties, and entries that own no key."""
    if not placed:
        return NO_SCHEMA
    names: dict[tuple[str, str], PlacedEntry] = {}
    for each in placed:
        other = names.setdefault((each.entry.app, each.entry.name), each)
        if other is not each:
            path = f"schema.{each.entry.name}"
            problems.add(each.where, path, "a second time", f"each name once (first in {other.where})")
    placed = tuple(_related(each, names, problems) for each in placed)
    try:
        schema = Schema(tuple(each.entry for each in placed))
    except SchemaError as error:
        for flaw in error.flaws:
            _note_flaw(flaw, placed, problems)
        return Schema(())
    for each in placed:
        _check_example(each, schema, problems)
    return schema


def _related(placed: PlacedEntry, names: Mapping[tuple[str, str], PlacedEntry], problems: Problems) -> PlacedEntry:
    """The entry with the titles of those that it relates to: ``name`` is one of its own app, or else a shared one."""
    entry, titles = placed.entry, []
    for text in entry.relates_to:
        app, _, name = text.rpartition("/")
        found = names.get((app or entry.app, name)) or names.get((app, name))
        if found is None or found is placed:
            path, where = placed.path_of("relates_to"), placed.line_of("relates_to")
            problems.add(where, path, shown(text), "the name of another entry, or APP/NAME for one of another app")
        else:
            titles.append(found.entry.title)
    return replace(placed, entry=replace(entry, relates_to=tuple(titles)))


def _check_example(placed: PlacedEntry, schema: Schema, problems: Problems) -> None:
    example = placed.entry.example
    owner = schema.owner_of(example.encode()) if example else placed.entry
    if owner != placed.entry:
        path, where = placed.path_of("example"), placed.line_of("example")
        taken = "which no entry owns" if owner is None else f"which {owner.described} owns"
        problems.add(where, path, f"{shown(example)}, {taken}", f"a key such as {placed.entry.pattern.text}")


def _note_flaw(flaw: Flaw, placed: tuple[PlacedEntry, ...], problems: Problems) -> None:
    match flaw:
        case Tie(first=first, second=second, example=example):
            one, other = placed[first], placed[second]
            expected = (
                f"a pattern that is more or less specific than that of {one.entry.title} ({one.where}): "
                f"both match {shown_key(example)}"
            )
            problems.add(other.where, other.path, shown(other.entry.pattern.text), expected)
        case Unreachable(pattern=number, owners=owners):
            one = placed[number]
            others = ", ".join(f"{placed[owner].entry.title} ({placed[owner].where})" for owner in owners)
            taken = f"more specific patterns take all its keys: {others}" if owners else "no key matches it"
            problems.add(one.where, one.path, shown(one.entry.pattern.text), f"a pattern that owns some key; {taken}")
        case TooLarge(states=states):
            expected = f"patterns that need at most {states} states; several placeholders in a segment need many"
            problems.add(Where(placed[0].where.file), "schema", "patterns that are too complex together", expected)
