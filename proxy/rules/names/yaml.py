"""``names: {separator: ":", segments: 2..6, characters: printable-ascii, …}``, with ``applies_to`` beside it."""

from collections.abc import Callable
from typing import TypeVar

from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.fields import (
    Fields,
    Span,
    choice,
    integer,
    read_fields,
    read_list,
    read_mapping,
    read_separator,
    read_span,
)
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Problems, Scalar, Sequence, Value
from proxy.rules.names.faults import kind_automaton
from proxy.rules.names.rule import CHARACTERS, DEFAULT_PREFIXES, NamesSettings
from proxy.schema.patterns import KINDS, PatternError

T = TypeVar("T")

_LONGEST_NAME = 65_535
_ANY_NUMBER: Span = (1, None)
_MOST_SEGMENTS = 64
_NO_TEXTS: tuple[str, ...] = ()
_NO_SEGMENTS: tuple[int, ...] = ()
_ANY_HASH_TAG: tuple[bool | tuple[int, ...], tuple[str, ...]] = (True, _NO_TEXTS)
_SWITCH = {"allow": True, "refuse": False}
ACCESS = {"all": (True, True), "reads": (True, False), "writes": (False, True)}
"""Whether a rule is about the keys that a command reads, and about those that it may write."""
_IN_SCHEMA = {"true": False, "owned": True}
"""Whether the schema's entry must be the client's own."""


def read_names(value: Value, rule: Fields) -> NamesSettings | None:
    reads, writes = rule.read("applies_to", choice(ACCESS), (True, True))
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    most = integer(1, _LONGEST_NAME)
    max_length = fields.take("max_length")
    segments = fields.take("segments")
    least_segments, most_segments = fields.read("segments", read_span, _ANY_NUMBER)
    hash_tags, banned_hash_tags = fields.read("hash_tags", _read_hash_tags, _ANY_HASH_TAG)
    settings = NamesSettings(
        characters=fields.read("characters", choice({name: name for name in CHARACTERS}), "any"),
        min_length=fields.read("min_length", integer(0, _LONGEST_NAME), 1),
        max_length=None if max_length is None else most(max_length, rule.problems),
        separator=fields.read("separator", read_separator, ":"),
        min_segments=least_segments,
        max_segments=most_segments,
        empty_segments=fields.read("empty_segments", choice(_SWITCH), segments is None),
        reads=reads,
        writes=writes,
        in_schema="in_schema" in fields,
        owned=fields.read("in_schema", choice(_IN_SCHEMA), False),
        segment_types=fields.read("segment_types", _each(_read_text), ()),
        banned=fields.read("banned", _each(_read_text), ()),
        banned_segments=fields.read("banned_segments", _each(_read_text), ()),
        hash_tags=hash_tags,
        banned_hash_tags=banned_hash_tags,
        prefixes=fields.read("prefixes", _read_prefixes, ()),
    )
    fields.finish()
    if not fields.says_more_than("separator"):
        fields.problems.add(fields.where, fields.path, "no standard", "at least one, such as segments: 2..6")
    _check_names(settings, fields)
    _check_segment_types(settings, fields)
    _check_prefixes(settings, fields)
    return settings


def _each(read: Callable[[Scalar, Problems], T | None]) -> Callable[[Value, Problems], tuple[T, ...] | None]:
    def read_each(value: Value, problems: Problems) -> tuple[T, ...] | None:
        found = [read(scalar, problems) for scalar in read_list(value, problems) or ()]
        return tuple(each for each in found if each is not None)

    return read_each


def _read_text(scalar: Scalar, _problems: Problems) -> str:
    note(scalar, type="string")
    return scalar.text


def _read_hash_tags(value: Value, problems: Problems) -> tuple[bool | tuple[int, ...], tuple[str, ...]] | None:
    """``refuse``, or a mapping with the segments that may have one and the banned tags."""
    if isinstance(value, Scalar):
        note(value, enum=["refuse"])
        if value.text == "refuse":
            return False, _NO_TEXTS
        problems.unexpected(value, "refuse, or segments, or banned")
        return None
    fields = read_fields(value, problems)
    if fields is None:
        return None
    segments = fields.read("segments", _each(integer(1, _MOST_SEGMENTS)), _NO_SEGMENTS)
    banned = fields.read("banned", _each(_read_text), _NO_TEXTS)
    if not segments and not banned:
        problems.unexpected(value, "refuse, or segments, or banned")
    fields.finish()
    return segments or True, banned


def _read_prefixes(value: Value, problems: Problems) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """A list for everybody, or a mapping with a list for each application."""
    read = _each(_read_text)
    if isinstance(value, Sequence):
        return ((DEFAULT_PREFIXES, read(value, problems) or ()),)
    mapping = read_mapping(value, problems)
    if mapping is None:
        return None
    if not mapping.entries:
        problems.unexpected(mapping, "lists such as {checkout: ['cart:']}")
    return tuple((app, read(each, problems) or ()) for app, each in mapping.entries.items())


def _check_segment_types(settings: NamesSettings, fields: Fields) -> None:
    where, path = fields.line_of("segment_types"), fields.path_of("segment_types")
    most = settings.max_segments
    if most is not None and len(settings.segment_types) > most:
        found = f"{len(settings.segment_types)} of them"
        fields.problems.add(where, path, found, f"at most as many as there are segments, which is {most}")
    for i, kind in enumerate(settings.segment_types):
        try:
            kind_automaton(kind, settings.separator)
        except PatternError:
            expected = f"any, one of {', '.join(KINDS)}, several such as int|uuid, or words such as prod|staging"
            fields.problems.add(where, f"{path}[{i}]", shown(kind), expected)
        except ValueError:
            expected = "another separator: segments of these types may contain this character"
            fields.problems.add(
                fields.line_of("separator"), fields.path_of("separator"), shown(settings.separator), expected
            )
            return


def _check_names(settings: NamesSettings, fields: Fields) -> None:
    """Note standards that no name can meet."""
    problems = fields.problems
    longest = _LONGEST_NAME if settings.max_length is None else settings.max_length
    if settings.min_length > longest:
        expected = f"at most max_length, which is {longest}"
        problems.add(fields.line_of("min_length"), fields.path_of("min_length"), str(settings.min_length), expected)
    shortest = settings.min_segments - 1 if settings.empty_segments else 2 * settings.min_segments - 1
    if shortest > longest:
        expected = f"fewer segments, which fit into {longest} bytes; else no name passes"
        problems.add(fields.line_of("segments"), fields.path_of("segments"), settings.segments, expected)
    if settings.min_segments > 1 and settings.separator.encode() not in CHARACTERS[settings.characters]:
        expected = f"one of the {settings.characters} characters; else no name passes"
        problems.add(fields.line_of("separator"), fields.path_of("separator"), shown(settings.separator), expected)


def _check_prefixes(settings: NamesSettings, fields: Fields) -> None:
    """Note prefixes with which no name can meet the rest of the standard."""
    allowed, separator = CHARACTERS[settings.characters], settings.separator
    for app, prefixes in settings.prefixes:
        for prefix in prefixes:
            expected = ""
            if settings.max_length is not None and len(prefix.encode()) > settings.max_length:
                expected = f"one that fits into max_length, which is {settings.max_length}"
            elif prefix.encode().translate(None, allowed):
                expected = f"one of {settings.characters} characters"
            elif settings.max_segments is not None and prefix.count(separator) >= settings.max_segments:
                expected = f"one that leaves names with {settings.segments} segments"
            elif not settings.empty_segments and (prefix.startswith(separator) or separator * 2 in prefix):
                expected = "one without an empty segment"
            if expected:
                path = f"{fields.path_of('prefixes')}{'' if app == DEFAULT_PREFIXES else f'.{app}'}"
                fields.problems.add(fields.line_of("prefixes"), path, shown(prefix), f"{expected}, or no name passes")
