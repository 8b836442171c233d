"""Several naming standards as one: whether any name can meet all of them.

Standards of one kind are joined first: two lists of banned words become one list, two maximum lengths the smaller one.
So only a few machines run side by side, for any number of rules.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from proxy.rules.name_language import Counted, Machine, TooIntricateError, endings
from proxy.rules.names.faults import Banned, HashTags, Prefixes, SegmentKinds
from proxy.rules.names.rule import CHARACTERS, DEFAULT_PREFIXES, NamesSettings
from proxy.rules.plan_checks import UNLIMITED

_ALL = frozenset(CHARACTERS["any"])
_FOREIGN = "others"
_MOST_STATES = 5_000
"""The most machines of a search; more would take too long, and then the answer is unknown."""
_USUAL = 8
"""The most states of a search with this number of machines; with more machines, each state takes longer, so it is
fewer."""


def for_app(settings: NamesSettings, app: str) -> NamesSettings:
    """The standard for the bytes of this app's keys: equal for all apps with the same standard."""
    own, foreign = settings.prefixes_of(app)
    prefixes = ((DEFAULT_PREFIXES, own),) if own else ((_FOREIGN, foreign),) if foreign else ()
    return replace(settings, prefixes=prefixes, in_schema=False, owned=False, reads=True, writes=True)


@dataclass(frozen=True, slots=True)
class JointStandard:
    """Names of `least` to `most` bytes that all `machines` find right."""

    machines: tuple[Machine, ...]
    least: int
    most: int

    def is_met_with(self, others: Sequence[Machine] = ()) -> bool:
        """Whether some name meets it and the other machines accept it; True if the search takes too long."""
        try:
            return any(True for _ in self.endings(others))
        except TooIntricateError:
            return True

    def endings(self, others: Sequence[Machine], most_states: int = _MOST_STATES) -> Iterator[tuple[Hashable, ...]]:
        """The states in which accepted names end, ``others`` first: see ``name_language.endings``."""
        machines = (*others, *self.machines)
        affordable = most_states * _USUAL // max(_USUAL, len(machines))
        return endings(machines, self.least, self.most, affordable)


def join_standards(standards: Collection[NamesSettings]) -> JointStandard | None:
    """One standard of these, each made by ``for_app``; None if prefixes or segments exclude each other."""
    prefixes = _required(standards)
    counted = list(_counted(standards))
    if prefixes == frozenset() or any(most is not None and most < least for _, least, most, _ in counted):
        return None
    allowed = _ALL.intersection(*(CHARACTERS[each.characters] for each in standards))
    table = bytes(byte in allowed for byte in range(256))
    if not counted and len(allowed) < len(_ALL):
        counted = [(None, 1, None, True)]
    machines: list[Machine] = [Counted(table, *each) for each in counted]
    if prefixes is not None:
        machines.append(Prefixes(tuple(sorted(prefixes)), ()))
    machines += _forbidden(standards)
    machines += _placed(standards)
    longest = (each.max_length for each in standards if each.max_length is not None)
    return JointStandard(tuple(machines), max(each.min_length for each in standards), min(longest, default=UNLIMITED))


def _counted(standards: Iterable[NamesSettings]) -> Iterator[tuple[int | None, int, int | None, bool]]:
    """By separator: the least and the most segments, and whether they may be empty."""
    by_separator: dict[str, list[NamesSettings]] = {}
    for each in standards:
        if each.counts_segments:
            by_separator.setdefault(each.separator, []).append(each)
    for separator, found in by_separator.items():
        most = (each.max_segments for each in found if each.max_segments is not None)
        least = max(each.min_segments for each in found)
        yield separator.encode()[0], least, min(most, default=None), all(each.empty_segments for each in found)


def _required(standards: Iterable[NamesSettings]) -> frozenset[str] | None:
    """The prefixes of which a name must have one; None if it needs none."""
    lists = dict.fromkeys(each.prefixes_of("")[0] for each in standards)
    joined: frozenset[str] | None = None
    for own in (frozenset(each) for each in lists if each):
        joined = own if joined is None else _longer(joined, own) | _longer(own, joined)
    return joined


def _longer(these: frozenset[str], those: frozenset[str]) -> frozenset[str]:
    """The prefixes of ``these`` that begin with one of ``those``."""
    return frozenset(each for each in these if any(each[:end] in those for end in range(len(each) + 1)))


def _forbidden(standards: Iterable[NamesSettings]) -> Iterator[Machine]:
    """The machines of prefixes that a name must not have, and of banned words."""
    foreign: set[str] = set()
    words: dict[str, set[str]] = {}
    for each in standards:
        foreign.update(each.prefixes_of("")[1])
        words.setdefault("", set()).update(each.banned)
        words.setdefault(each.separator, set()).update(each.banned_segments)
    if foreign:
        yield Prefixes((), tuple(foreign))
    yield from (Banned(banned, separator) for separator, banned in words.items() if banned)


def _placed(standards: Iterable[NamesSettings]) -> Iterator[Machine]:
    """The machines of segment kinds and of hash tags."""
    kinds = dict.fromkeys((each.segment_types, each.separator) for each in standards if each.segment_types)
    yield from (SegmentKinds(*each) for each in kinds)
    tags = dict.fromkeys(
        (each.hash_tags, each.banned_hash_tags, each.separator)
        for each in standards
        if each.hash_tags is not True or each.banned_hash_tags
    )
    for anywhere, banned, separator in tags:
        segments = () if isinstance(anywhere, bool) else anywhere
        yield HashTags(anywhere is True, segments, banned, separator)
