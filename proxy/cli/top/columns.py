"""What a view shows: its columns, how the text in them is highlighted, and how rows are sorted."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Any

from proxy.cli.top.text import UNKNOWN, rate, share, size
from proxy.traffic.redaction import of_tenant

Row = dict[str, Any]
"""One object of the JSON that a path answers."""


class Tint(Enum):
    """How text is highlighted."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    BAR = "bar"
    GOOD = "good"
    BAD = "bad"
    TURNED = "turned"


Line = list[tuple[str, Tint]]
"""Pieces of text, side by side."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, ``width`` cells wide. With width 0 it gets a part of the remaining cells, by `weight`. A terminal
    narrower than `least` does not show it, and no terminal if no row is `worth` it.

    A ``bar`` shows a share. Long text is cut at its end, or with ``whole_ends`` in its middle.
    """

    title: str
    cell: Callable[[Row], object]
    width: int = 0
    weight: int = 1
    whole_ends: bool = False
    right: bool = False
    bar: bool = False
    least: int = 0
    tint: Callable[[Row], Tint] = lambda _: Tint.PLAIN
    worth: Callable[[Row], bool] | None = None


@dataclass(frozen=True, slots=True)
class SortOrder:
    """A way to sort, the largest weight first; without a weight, in the order of the admin port."""

    name: str
    weight: Callable[[Row], Any] | None = None


def value_of(name: str) -> Callable[[Row], object]:
    """The cell that shows this field; a dash where it is empty."""
    return lambda row: UNKNOWN if row.get(name) in (None, "") else row[name]


def rate_column(name: str, title: str, least: int = 0) -> Column:
    """A column of numbers per second."""
    return Column(title, lambda row: rate(row[name]), 8, right=True, least=least)


def size_column(name: str, title: str, least: int = 0) -> Column:
    """A column of bytes."""
    return Column(title, lambda row: size(row[name]), 7, right=True, least=least)


SHARE = Column("SHARE", lambda row: share(row["share"]), 6, right=True)
BAR = Column("", lambda row: row["share"], 8, bar=True, tint=lambda _: Tint.BAR)


def _hit_tint(row: Row) -> Tint:
    ratio = row["hit_ratio"]
    return Tint.BAD if ratio is not None and ratio < 0.5 else Tint.PLAIN


HITS = Column("HIT", lambda row: share(row["hit_ratio"]), 6, right=True, tint=_hit_tint)
"""The share of reads that found a value."""


def behind(row: Row) -> str:
    """The client that uses a key most, and how many others there are."""
    if not row["clients"]:
        return UNKNOWN
    first = row["clients"][0]
    name = first["client_name"] or first["library"] or first["user"]
    more = len(row["clients"]) - 1
    return f"{first['share']:.0%} {first['app']}/{name}" + (f" +{more}" if more else "")


def keys_of_slot(row: Row) -> str:
    """The busiest keys of a slot, with the names that tenants know."""
    keys = row.get("keys", [])
    return " ".join(key + of_tenant(tenant) for key, tenant in zip_longest(keys, row.get("tenants", ())))


def _tenants_name(row: Row) -> str:
    tenant = row.get("tenant")
    return UNKNOWN if tenant is None else f"{tenant['key']} of {tenant['app'] or 'a tenant'}"


TENANTS_NAME = Column("TENANT'S NAME", _tenants_name, weight=2, worth=lambda row: bool(row.get("tenant")))
"""The name of a key that its tenant knows, and the tenant's app; where there are keys of tenants."""
