"""What grew between two scans, as text and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from proxy.cli.scan_text import NOBODY, size, table
from proxy.cli.text_forms import Plain
from proxy.server.stored.growth import Change, Forecast, Growth

_MOST_ROWS = 10
_FORM = Plain()
_FAR = 10 * 365 * 86_400


def text(growth: Growth) -> str:
    """All of it."""
    return "\n".join([*_lines(growth)])


def as_json(growth: Growth) -> dict[str, Any]:
    """The same as values that JSON can hold: seconds and bytes; null: not at all, or nobody can tell."""
    return {
        "old": {"started": growth.old.started, "keys": growth.old.keys, "bytes": growth.old.bytes},
        "new": {"started": growth.new.started, "keys": growth.new.keys, "bytes": growth.new.bytes},
        "apps": [{"app": app, **asdict(change)} for app, change in growth.apps.items()],
        "patterns": [{**place._asdict(), **asdict(change)} for place, change in growth.patterns.items()],
        "forecasts": [{**asdict(each), "soonest": each.soonest, "latest": each.latest} for each in growth.forecasts],
        "scans": growth.scans,
        "notes": [*growth.notes],
    }


def _lines(growth: Growth) -> Iterator[str]:
    old, new = growth.old, growth.new
    since = datetime.fromtimestamp(old.started, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    yield f"since {since} ({_span(new.started - old.started)} before): {_change(old.keys, new.keys)} keys, " + (
        _size_change(old.bytes, new.bytes)
    )
    rows: list[Sequence[str]] = [(_FORM.say(app or NOBODY), *_cells(its)) for app, its in growth.apps.items()]
    yield from table(("owner", "keys", "change", "bytes", "change"), rows, right=range(1, 5))
    if growth.patterns:
        heads = ("pattern", "owner", "keys", "change", "bytes", "change")
        places = [*growth.patterns.items()]
        rows = [(_FORM.code(at.pattern), _FORM.say(at.app or NOBODY), *_cells(its)) for at, its in places[:_MOST_ROWS]]
        yield from table(heads, rows, right=range(2, 6))
        if len(places) > _MOST_ROWS:
            yield f"and {len(places) - _MOST_ROWS:,} more (--json)"
    rows = [
        (_FORM.say(each.node), each.what, size(each.used), size(each.limit) if each.limit else "-", *_ahead(each))
        for each in growth.forecasts
    ]
    yield from table(("server", "limit", "used", "of", "grows per day", "full in"), rows, right=(2, 3))
    yield ""
    yield f"rates are of {growth.scans} scans: the least and the most between any two that are an hour or more apart"
    yield from (_FORM.say(each) for each in growth.notes)


def _cells(its: Change) -> tuple[str, str, str, str]:
    return f"{its.keys:,}", _change(its.old_keys, its.keys), size(its.bytes), _size_change(its.old_bytes, its.bytes)


def _change(old: int, new: int) -> str:
    return f"{new - old:+,}"


def _size_change(old: float, new: float) -> str:
    return f"{'-' if new < old else '+'}{size(abs(new - old))}"


def _ahead(each: Forecast) -> tuple[str, str]:
    soonest, latest = each.soonest, each.latest
    if soonest == 0:
        return "", "full now"
    if each.problem:
        return "", f"cannot tell: {each.problem}"
    rates = f"{_size_change(0, 86_400 * each.least)} to {_size_change(0, 86_400 * each.most)}"
    if soonest is None:
        return rates, "does not grow"
    if latest is None:
        return rates, f"{_span(soonest)}, or never"
    first, last = _span(soonest), _span(latest)
    return rates, first if first == last else f"{first} to {last}"


def _span(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}" if seconds < _FAR else "over 10 years"
    return f"{seconds:.0f} s"
