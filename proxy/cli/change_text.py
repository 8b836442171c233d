"""What was done with stored keys, or would be, as text for a terminal and as JSON."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from proxy.cli.scan_text import NOBODY, size, table
from proxy.cli.text_forms import Plain
from proxy.server.stored.changes.model import Changed, Outcome
from proxy.server.stored.model import PatternRow, Place, Scan

_FORM = Plain()
_MOST_ROWS = 20
_SAID = {
    Outcome.CHANGED: "changed meanwhile",
    Outcome.GONE: "gone meanwhile",
    Outcome.BUSY: "the server did not serve",
    Outcome.REFUSED: "the server refused",
    Outcome.TAKEN: "for which another key has the new name",
}


def text(scan: Scan, found: Changed, what: str, show: Callable[[bytes], str]) -> str:
    """The whole of it; ``what`` begins the first line, such as ``would be deleted``."""
    return "\n".join([*_summary(scan, found, what), *_owners(scan, found, show), *_rest(scan, found)])


def as_json(scan: Scan, found: Changed, show: Callable[[bytes], str]) -> dict[str, Any]:
    """The same as values that JSON can hold, with all patterns. ``left_alone`` counts reasons, ``refused`` errors."""
    return {
        "upstream": scan.upstream,
        "policy": scan.policy,
        "finished": scan.finished,
        "reached_limit": found.reached_limit,
        "keys": scan.keys,
        "bytes": scan.bytes,
        "unmeasured": scan.unmeasured,
        "patterns": [
            {
                **place._asdict(),
                "keys": row.keys,
                "bytes": row.bytes,
                "without_ttl": row.without_ttl,
                "such_as": [show(key) for key in found.shown.get(place, ())],
            }
            for place, row in _most_first(scan)
        ],
        "left_alone": {said: found.outcomes[each] for each, said in _SAID.items() if found.outcomes[each]}
        | {why: count for why, count in sorted(found.left.items()) if count},
        "refused": dict(sorted(found.refusals.items())),
        "unknown": found.unknown,
        "expected_missed": scan.expected_missed,
        "notes": list(scan.notes),
    }


def _most_first(scan: Scan) -> list[tuple[Place, PatternRow]]:
    return sorted(scan.patterns.items(), key=lambda each: (-each[1].keys, each[0]))


def _summary(scan: Scan, found: Changed, what: str) -> Iterator[str]:
    part = "" if scan.finished else " (a part: the walk did not come to its end)"
    limited = ", and the limit is reached" if found.reached_limit else ""
    yield f"{scan.keys:,} keys, {size(scan.bytes)}: {what}{limited}{part}"


def _owners(scan: Scan, found: Changed, show: Callable[[bytes], str]) -> Iterator[str]:
    heaviest = _most_first(scan)
    rows = [
        (
            _FORM.say(place.app or NOBODY),
            _FORM.code(place.pattern),
            f"{row.keys:,}",
            size(row.bytes),
            f"{row.without_ttl:,}",
            ", ".join(_FORM.code(show(key)) for key in found.shown.get(place, ())),
        )
        for place, row in heaviest[:_MOST_ROWS]
    ]
    yield from table(("owner", "pattern", "keys", "bytes", "no TTL", "such as"), rows, right=(2, 3, 4))
    if len(heaviest) > _MOST_ROWS:
        yield f"and {len(heaviest) - _MOST_ROWS:,} more patterns"


def _rest(scan: Scan, found: Changed) -> Iterator[str]:
    left = [f"{found.outcomes[each]:,} {said}" for each, said in _SAID.items() if found.outcomes[each]]
    left += [f"{count:,} {_FORM.say(why)}" for why, count in sorted(found.left.items()) if count]
    said: Sequence[str] = [
        *([f"left alone: {', '.join(left)}"] if left else []),
        *(f"{count:,} refused: {_FORM.say(why)}" for why, count in sorted(found.refusals.items())),
        *([f"{found.unknown:,} may have been changed: their replies were lost"] if found.unknown else []),
        *map(_FORM.say, scan.notes),
    ]
    if scan.expected_missed:
        said = [*said, f"about {scan.expected_missed:,.1f} keys were taken for repeated ones, and left"]
    if said:
        yield from ("", *said)
