"""Shapes of keys -> few patterns of a schema that match all of their keys.

    user:{int}:cart, user:{uuid}:cart     user:{user:int|uuid}:cart      the same words
    user:ada:cart, user:bob:cart, …       user:{user:word}:cart          one word differs, and there are too many
    log:{date} with a time of day         log:{log...}                   the time may have separators
    {opaque}, {bytes}:{int}               {id}, {id}:{id2:int}           no word at all: these fit nothing

A segment is a tuple of parts: text, or the set of kinds of a placeholder.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from proxy.schema.automaton import SchemaError, Tie, Unreachable, compile_patterns
from proxy.schema.patterns import Pattern, PatternError, parse_pattern
from proxy.traffic.exemplars import CUT, PLACEHOLDER

Kinds: TypeAlias = frozenset[str]
Segment: TypeAlias = tuple[str | Kinds, ...]
Family: TypeAlias = tuple[Segment, ...]

_ANY, _REST, _WORD = frozenset({"any"}), frozenset({"rest"}), frozenset({"word"})
_ANYTHING: Family = ((_REST,),)
_KINDS_OF: dict[str, Kinds] = {
    **{kind: frozenset({kind}) for kind in ("int", "uuid", "hex", "date")},
    "ip": _WORD,
    "opaque": _WORD,
    "email": _ANY,
    "bytes": _ANY,
}
_MOST_KINDS, _MOST_PLACEHOLDERS, _MOST_SEGMENTS = 3, 3, 24
_WORDS = re.compile(r"[A-Za-z0-9_.-]*")
_LETTER = re.compile(r"[A-Za-z]")
_VISIBLE = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,23}")
_ALONE = 2
"""The least number of families that are merged."""


@dataclass(frozen=True, slots=True)
class Dates:
    """What keys show of ``{date}``, by shape: `times` have a time of day, `separated` one with a separator in it."""

    times: frozenset[str] = frozenset()
    separated: frozenset[str] = frozenset()


def patterns_of(weights: Mapping[str, int], dates: Dates, literals: Iterable[str], budget: int) -> list[Pattern]:
    """Patterns for all keys of these shapes, at most `budget`; `weights` says how often each shape was used.

    `literals` are keys with the text of a placeholder in them, as of a template that nobody has filled in.
    """
    families: dict[Family, int] = {}
    for shape, weight in weights.items():
        family = _family_of(shape, dates)
        families[family] = families.get(family, 0) + weight
    for key in literals:
        families.setdefault(tuple((text,) if text else () for text in key.split(":")), 1)
    families = _merged(families, _skeleton)
    while True:
        _fit(families, budget)
        found, flaw = _compiled(families)
        if flaw is None:
            return found
        families = flaw


def has_words(shape: str) -> bool:
    """Whether any word tells keys of this shape from others; else they fit nothing."""
    return _VISIBLE.fullmatch(shape) is not None and _LETTER.search(PLACEHOLDER.sub("", shape)) is not None


def _family_of(shape: str, dates: Dates) -> Family:
    if not _VISIBLE.fullmatch(shape):
        return _ANYTHING
    whole = shape.removesuffix(CUT)
    segments: list[Segment] = []
    for text in whole.split(":")[:_MOST_SEGMENTS]:
        if "{date}" in text and shape in dates.separated:
            return (*segments, (_REST,))
        segments.append(_segment_of(text, shape in dates.times))
    cut = shape != whole or whole.count(":") >= _MOST_SEGMENTS
    return (*segments[:-1], (_REST,)) if cut else tuple(segments)


def _segment_of(text: str, timed: bool) -> Segment:
    parts: list[str | Kinds] = []
    for at, part in enumerate(PLACEHOLDER.split(text)):
        if at % 2:
            parts.append(_ANY if part == "date" and timed else _KINDS_OF[part])
        elif part:
            parts.append(part)
    return _simple(tuple(parts))


def _simple(segment: Segment) -> Segment:
    """The same or a looser segment that patterns can say, and whose automaton is small."""
    kinds = [part for part in segment if not isinstance(part, str)]
    beside = any(not isinstance(one, str) and not isinstance(two, str) for one, two in pairwise(segment))
    if len(segment) > 1 and (_ANY in kinds or beside or len(kinds) > _MOST_PLACEHOLDERS):
        return (_join(segment),)
    return segment


def _join(parts: Iterable[str | Kinds]) -> Kinds:
    """Kinds that match any one of these parts, or a row of them."""
    fit = all(_WORDS.fullmatch(part) if isinstance(part, str) else part & {"any", "rest"} == set() for part in parts)
    return _WORD if fit else _ANY


def _united(one: Kinds, other: Kinds) -> Kinds:
    kinds = one | other
    for most in (_REST, _ANY, _WORD):
        if most <= kinds:
            return most
    if kinds >= {"int", "hex"}:
        kinds -= {"int"}
    return kinds if len(kinds) <= _MOST_KINDS else _WORD


# Merging


def _skeleton(family: Family) -> tuple[object, ...]:
    """Equal for families of the same words."""
    return tuple(tuple(part if isinstance(part, str) else None for part in segment) for segment in family)


def _merged(families: Mapping[Family, int], alike: Callable[[Family], object]) -> dict[Family, int]:
    """Families that are alike become one. They have equally many segments."""
    groups: dict[object, list[Family]] = {}
    for family in families:
        groups.setdefault(alike(family), []).append(family)
    merged: dict[Family, int] = {}
    for group in groups.values():
        one = _one_of(group)
        merged[one] = merged.get(one, 0) + sum(families[each] for each in group)
    return merged


def _one_of(group: Sequence[Family]) -> Family:
    return tuple(_one_segment(list(dict.fromkeys(segments))) for segments in zip(*group, strict=True))


def _one_segment(segments: Sequence[Segment]) -> Segment:
    """A segment that matches all that these match."""
    first = segments[0]
    if len(segments) == 1:
        return first
    if len({_skeleton((each,)) for each in segments}) > 1:
        parts = [part for each in segments for part in each]
        if any(part == _REST for part in parts):
            return (_REST,)
        return (_join(parts),)
    united = list(first)
    for each in segments[1:]:
        for at, part in enumerate(each):
            mine = united[at]
            if not isinstance(part, str) and not isinstance(mine, str):
                united[at] = _united(mine, part)
    return _simple(tuple(united))


def _fit(families: dict[Family, int], budget: int) -> None:
    """Merge families until there are at most `budget`: first those that differ in one segment, many of them."""
    while len(families) > budget:
        if not _merge_where_one_differs(families, budget):
            _merge_tails(families)


def _merge_where_one_differs(families: dict[Family, int], budget: int) -> bool:
    groups: dict[tuple[int, int, Family], list[Family]] = {}
    for family in families:
        for at in range(1 if len(family) > 1 else 0, len(family)):
            if not family[at] or _REST in family[at]:
                continue  # no placeholder matches an empty segment
            groups.setdefault((at, len(family), (*family[:at], (), *family[at + 1 :])), []).append(family)
    merged = False
    for group in sorted(groups.values(), key=len, reverse=True):
        left = [family for family in group if family in families]
        if len(families) <= budget or len(left) < _ALONE:
            continue
        _replace(families, left, _one_of(left))
        merged = True
    return merged


def _merge_tails(families: dict[Family, int]) -> None:
    """Merge all families of one first segment: that of most families; in the end those of several, the lightest."""
    firsts: dict[Segment, list[Family]] = {}
    for family in families:
        firsts.setdefault(family[0], []).append(family)
    first, group = max(firsts.items(), key=lambda each: len(each[1]))
    if len(group) >= _ALONE and first != (_REST,):
        _replace(families, group, (first, (_REST,)) if all(any(each[1:]) for each in group) else _ANYTHING)
        return
    lightest = sorted((each for each in families if each != _ANYTHING), key=lambda each: families[each])
    _replace(families, lightest[: max(_ALONE, len(lightest) // 4)], _ANYTHING)


def _replace(families: dict[Family, int], old: Iterable[Family], new: Family) -> None:
    weight = sum(families.pop(each) for each in list(old))
    families[new] = families.get(new, 0) + weight


# Patterns


def _compiled(families: Mapping[Family, int]) -> tuple[list[Pattern], dict[Family, int] | None]:
    """The patterns; or, if they give some key no owner, other families in their place."""
    patterns: list[Pattern] = []
    for family in families:
        try:
            patterns.append(parse_pattern(_text_of(family)))
        except PatternError:
            return [], _replaced(families, {family: _without_text(family)})
    try:
        compile_patterns(patterns)
    except SchemaError as error:
        return [], _mended(list(families), families, error)
    return patterns, None


def _replaced(families: Mapping[Family, int], by: Mapping[Family, Family | None]) -> dict[Family, int]:
    found: dict[Family, int] = {}
    for family, weight in families.items():
        new = by.get(family, family)
        if new is not None:
            found[new] = found.get(new, 0) + weight
    return found


def _without_text(family: Family) -> Family:
    """A looser family: braces are no text. The longest patterns end in a rest."""
    plain = tuple(
        (_ANY,) if any(isinstance(part, str) and set(part) & set("{}") for part in segment) else segment
        for segment in family
    )
    return plain if plain != family else _ANYTHING if len(family) < _ALONE else (*family[: len(family) // 2], (_REST,))


def _mended(order: Sequence[Family], families: Mapping[Family, int], error: SchemaError) -> dict[Family, int]:
    by: dict[Family, Family | None] = {}
    for flaw in error.flaws:
        if isinstance(flaw, Tie):
            one, other = order[flaw.first], order[flaw.second]
            if one not in by and other not in by:
                by |= dict.fromkeys((one, other), _both(one, other))
        elif isinstance(flaw, Unreachable) and flaw.owners and order[flaw.pattern] not in by:
            by[order[flaw.pattern]] = None
    if by:
        return _replaced(families, by)
    mixed = {each: tuple((_join(part),) if len(part) > 1 else part for part in each) for each in order}
    if any(each != loose for each, loose in mixed.items()):
        return _replaced(families, mixed)
    fewer = dict(families)
    _fit(fewer, max(1, len(fewer) // 2))
    return fewer


def _both(one: Family, other: Family) -> Family:
    if len(one) == len(other):
        return _one_of([one, other])
    same = 0
    while one[same] == other[same] and same < min(len(one), len(other)) - 1:
        same += 1
    return (*one[:same], (_REST,))


def _text_of(family: Family) -> str:
    """The pattern as policies write it. A placeholder is named after the word before it."""
    names: set[str] = set()
    before, texts = "", []
    for segment in family:
        text = ""
        for part in segment:
            if isinstance(part, str):
                text += part.replace("{", "{{").replace("}", "}}")
                continue
            name = _unique(before if _NAME.fullmatch(before) else "id", names)
            if part == _REST:
                text += f"{{{name}...}}"
            else:
                text += f"{{{name}}}" if part == _ANY else f"{{{name}:{'|'.join(sorted(part))}}}"
        texts.append(text)
        before = segment[0] if len(segment) == 1 and isinstance(segment[0], str) else before
    return ":".join(texts)


def _unique(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}{number}"
    taken.add(found)
    return found
