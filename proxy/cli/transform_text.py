"""What was rewritten, or would be, as text for a terminal and as JSON."""

from collections.abc import Callable, Iterator
from typing import Any

from proxy.cli.scan_text import NOBODY, size, table
from proxy.cli.text_forms import Plain
from proxy.server.stored.changes.rewritten import Rewritten, RewrittenRow
from proxy.server.stored.model import Place, Scan

_FORM = Plain()
_MOST_ROWS = 20
_UNFINISHED = "keys that others wrote each time"


def text(scan: Scan, found: Rewritten, what: str, show: Callable[[bytes], str]) -> str:
    """The whole of it; ``what`` is done, such as ``would be rewritten``."""
    return "\n".join([*_summary(scan, found, what), *_owners(found, show), *_rest(scan, found)])


def as_json(scan: Scan, found: Rewritten, show: Callable[[bytes], str]) -> dict[str, Any]:
    """The same as values that JSON can hold, with all patterns. ``left_alone`` counts reasons, ``refused`` errors."""
    return {
        "upstream": scan.upstream,
        "policy": scan.policy,
        "finished": scan.finished,
        "reached_limit": found.reached_limit,
        **_figures(found.whole),
        "patterns": [
            {**place._asdict(), **_figures(row), "such_as": [show(key) for key in row.shown]}
            for place, row in _most_first(found)
        ],
        "left_alone": _left(found),
        "refused": dict(sorted(found.refusals.items())),
        "notes": list(scan.notes),
    }


def _figures(row: RewrittenRow) -> dict[str, int]:
    return {"keys": row.keys, "values": row.values, "bytes_before": row.before, "bytes_after": row.after}


def _most_first(found: Rewritten) -> list[tuple[Place, RewrittenRow]]:
    return sorted(found.rows.items(), key=lambda each: (-each[1].before, each[0]))


def _left(found: Rewritten) -> dict[str, int]:
    unfinished = {_UNFINISHED: found.unfinished} if found.unfinished else {}
    return {why.why: count for why, count in sorted(found.left.items()) if count} | unfinished


def _summary(scan: Scan, found: Rewritten, what: str) -> Iterator[str]:
    row = found.whole
    part = "" if scan.finished else " (a part: the walk did not come to its end)"
    limited = ", and the limit is reached" if found.reached_limit else ""
    yield f"{row.values:,} values of {row.keys:,} keys, {_change(row)}: {what}{limited}{part}"


def _change(row: RewrittenRow) -> str:
    return f"{size(row.before)} to {size(row.after)}"


def _owners(found: Rewritten, show: Callable[[bytes], str]) -> Iterator[str]:
    largest = _most_first(found)
    rows = [
        (
            _FORM.say(place.app or NOBODY),
            _FORM.code(place.pattern),
            f"{row.keys:,}",
            f"{row.values:,}",
            size(row.before),
            size(row.after),
            ", ".join(_FORM.code(show(key)) for key in row.shown),
        )
        for place, row in largest[:_MOST_ROWS]
    ]
    yield from table(("owner", "pattern", "keys", "values", "before", "after", "such as"), rows, right=(2, 3, 4, 5))
    if len(largest) > _MOST_ROWS:
        yield f"and {len(largest) - _MOST_ROWS:,} more patterns"


def _rest(scan: Scan, found: Rewritten) -> Iterator[str]:
    said = [
        *(f"left alone: {count:,} {_FORM.say(why)}" for why, count in _left(found).items()),
        *(f"refused: {count:,} keys: {_FORM.say(why)}" for why, count in sorted(found.refusals.items())),
        *map(_FORM.say, scan.notes),
    ]
    if said:
        yield from ("", *said)
