"""``names: {separator: ":", segments: 2..6, characters: printable-ascii}``, with ``applies_to`` beside it."""

from proxy.policy.errors import shown
from proxy.policy.fields import Fields, Span, choice, integer, read_fields, read_separator, read_span
from proxy.policy.yaml_source import Value
from proxy.rules.names import CHARACTERS, NamesSettings

_LONGEST_NAME = 65_535
_ANY_NUMBER: Span = (1, None)
ACCESS = {"all": (True, True), "reads": (True, False), "writes": (False, True)}
"""Whether a rule is for the keys that a command reads, and for those that it may write."""
_IN_SCHEMA = {"true": False, "owned": True}
"""Whether the schema's entry must be the client's own."""


def read_names(value: Value, rule: Fields) -> NamesSettings | None:
    """What stands under ``names``."""
    reads, writes = rule.read("applies_to", choice(ACCESS), (True, True))
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    most = integer(1, _LONGEST_NAME)
    max_length = fields.take("max_length")
    segments = fields.take("segments")
    least_segments, most_segments = fields.read("segments", read_span, _ANY_NUMBER)
    settings = NamesSettings(
        characters=fields.read("characters", choice({name: name for name in CHARACTERS}), "any"),
        min_length=fields.read("min_length", integer(0, _LONGEST_NAME), 1),
        max_length=None if max_length is None else most(max_length, rule.problems),
        separator=fields.read("separator", read_separator, ":"),
        min_segments=least_segments,
        max_segments=most_segments,
        empty_segments=fields.read("empty_segments", choice({"allow": True, "refuse": False}), segments is None),
        reads=reads,
        writes=writes,
        in_schema="in_schema" in fields,
        owned=fields.read("in_schema", choice(_IN_SCHEMA), False),
    )
    fields.finish()
    _check_names(settings, fields)
    return settings


def _check_names(settings: NamesSettings, fields: Fields) -> None:
    """Standards that no name can meet."""
    problems = fields.problems
    longest = _LONGEST_NAME if settings.max_length is None else settings.max_length
    if settings.min_length > longest:
        expected = f"at most max_length, which is {longest}"
        problems.add(fields.line_of("min_length"), fields.path_of("min_length"), str(settings.min_length), expected)
    shortest = settings.min_segments - 1 if settings.empty_segments else 2 * settings.min_segments - 1
    if shortest > longest:
        expected = f"so few that they fit into {longest} bytes, or no name passes"
        problems.add(fields.line_of("segments"), fields.path_of("segments"), settings.segments, expected)
    if settings.min_segments > 1 and settings.separator.encode() not in CHARACTERS[settings.characters]:
        expected = f"one of the {settings.characters} characters, or no name passes"
        problems.add(fields.line_of("separator"), fields.path_of("separator"), shown(settings.separator), expected)
