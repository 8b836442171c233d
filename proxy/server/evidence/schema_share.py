"""How many recorded commands are on keys of no entry of the schema: a rule about the schema does not judge these.

The evidence has the shape of a command's first key. A shape is of no entry if none of the keys that stand for it is.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache

from proxy.schema.automaton import SchemaError
from proxy.schema.entries import KeyEntry, Schema
from proxy.schema.patterns import PatternError, parse_pattern
from proxy.server.evidence.model import HOUR, Evidence
from proxy.server.evidence.sample_keys import keys_of
from proxy.traffic.exemplars import CUT

Patterns = Iterable[tuple[str, str]]
"""The separator and the text of each entry of a schema."""


def share_of_no_entry(
    evidence: Evidence, route: str, apps: Collection[str], about: Collection[str], since: float, patterns: Patterns
) -> float | None:
    """The share, from 0 to 1, of the recorded commands `about` (empty: all) of these apps since a time; at least so
    many. None if no command with a key is recorded, or the patterns are those of another version of Keyrail."""
    shapes = Counter[str]()
    for (hour, where), rows in evidence.hours.items():
        for key, row in rows.forms.items() if where == route and hour + HOUR > since else ():
            if key.shape and key.who.app in apps and (not about or key.command in about):
                shapes[key.shape] += row.count
    try:
        schema = _schema_of(tuple((str(separator), str(text)) for separator, text in patterns))
    except (PatternError, SchemaError, ValueError):
        return None
    outside = sum(count for shape, count in shapes.items() if _is_outside(schema, shape))
    return outside / shapes.total() if shapes else None


@lru_cache(maxsize=4)
def _schema_of(patterns: tuple[tuple[str, str], ...]) -> Schema:
    return Schema(tuple(KeyEntry("", parse_pattern(text, separator)) for separator, text in patterns))


def _is_outside(schema: Schema, shape: str) -> bool:
    return not shape.endswith(CUT) and all(schema.owner_of(key) is None for key in keys_of(shape))
