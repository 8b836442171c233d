"""The views: the paths of the admin port that each shows, the names of rows, columns and sort orders."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from proxy.cli.top.columns import (
    BAR,
    HITS,
    SHARE,
    TENANTS_NAME,
    Column,
    Row,
    SortOrder,
    Tint,
    behind,
    keys_of_slot,
    rate_column,
    size_column,
    value_of,
)
from proxy.cli.top.text import UNKNOWN, clock, milliseconds, rate, share, size, when

Told = dict[str, Any]
"""The answers, by path without its slash."""


@dataclass(frozen=True, slots=True)
class View:
    """One view. ``paths`` are requested with the parameters that they have; ``rows`` finds the rows in the answers."""

    name: str
    paths: tuple[str, ...]
    rows: Callable[[Told, SortOrder], list[Row]]
    called: Callable[[Row], str]
    columns: tuple[Column, ...]
    orders: tuple[SortOrder, ...]
    parameters: frozenset[str] = field(default=frozenset({"window", "count", "route"}))


def number(row: Row, name: str) -> float:
    """A figure of a row; 0 if it is unknown."""
    found = row.get(name)
    return 0.0 if found is None else float(found)


def _sorted(path: str, name: str) -> Callable[[Told, SortOrder], list[Row]]:
    def rows(told: Told, order: SortOrder) -> list[Row]:
        found: list[Row] = told[path][name]
        return found if order.weight is None else sorted(found, key=order.weight, reverse=True)

    return rows


# Keys


def reads_share(row: Row) -> float | None:
    """The share of reads among a row's commands."""
    used = row["reads"] + row["writes"]
    return row["reads"] / used if used else None


KEYS = View(
    "Keys",
    ("hotkeys",),
    lambda told, _: list(told["hotkeys"]["keys"]),
    lambda row: str(row["key"]),
    (
        Column(
            "KEY",
            lambda row: row["key"],
            weight=3,
            whole_ends=True,
            tint=lambda row: Tint.BAD if row["hot"] else Tint.STRONG,
        ),
        TENANTS_NAME,
        rate_column("rate", "RATE/s"),
        SHARE,
        BAR,
        Column("READS", lambda row: share(reads_share(row)), 6, right=True),
        HITS,
        Column(
            "CACHED",
            lambda row: share(row["cached_share"]) if row["cached_share"] else UNKNOWN,
            6,
            right=True,
            tint=lambda _: Tint.GOOD,
            worth=lambda row: bool(row["cached_share"]),
        ),
        Column(
            "REPLICAS",
            lambda row: share(row["replica_share"]) if row["replica_share"] else UNKNOWN,
            8,
            right=True,
            tint=lambda _: Tint.GOOD,
            worth=lambda row: bool(row["replica_share"]),
        ),
        Column("BYTES/s", lambda row: size(row["bytes_in"] + row["bytes_out"]), 7, right=True),
        Column("SLOT", lambda row: row["slot"], 5, right=True),
        Column("PATTERN", value_of("pattern"), weight=2, least=150),
        Column("CLIENTS", behind, weight=2, least=100),
    ),
    (SortOrder("all"), SortOrder("reads"), SortOrder("writes"), SortOrder("bytes")),
    frozenset({"window", "count", "route", "by"}),
)


def _misses(row: Row) -> float:
    ratio = row["hit_ratio"]
    return 0.0 if ratio is None else float(row["rate"] * (1 - ratio))


PATTERNS = View(
    "Patterns",
    ("patterns",),
    _sorted("patterns", "patterns"),
    lambda row: str(row["pattern"]),
    (
        rate_column("rate", "RATE/s"),
        Column("READS", lambda row: share(reads_share(row)), 6, right=True),
        HITS,
        size_column("bytes_in", "IN/s"),
        size_column("bytes_out", "OUT/s"),
        Column("TTL", lambda row: share(row["ttl_share"]), 6, right=True, least=110),
        size_column("largest", "LARGEST", 100),
        Column("P50", lambda row: milliseconds(row["p50_ms"]), 6, right=True, least=110),
        Column("P99 ms", lambda row: milliseconds(row["p99_ms"]), 6, right=True),
        Column("N+1/s", lambda row: rate(row["runs"]), 6, right=True, least=90),
        Column("PATTERN", lambda row: row["pattern"], tint=lambda row: Tint.STRONG if row["schema"] else Tint.PLAIN),
        Column("APP", value_of("app"), 12, least=100),
    ),
    (
        SortOrder("rate", lambda row: row["rate"]),
        SortOrder("bytes", lambda row: row["bytes_in"] + row["bytes_out"]),
        SortOrder("p99", lambda row: number(row, "p99_ms")),
        SortOrder("misses", _misses),
        SortOrder("N+1", lambda row: row["runs"]),
        SortOrder("largest", lambda row: row["largest"]),
    ),
)

_TAGS = "tags"


def _slots(told: Told, order: SortOrder) -> list[Row]:
    answer, nodes = told["slots"], told["nodes"]["nodes"]
    if order.name == _TAGS:
        return [{**row, "what": "{" + row["tag"] + "}"} for row in answer["tags"]]
    return [
        {**row, "what": str(row["slot"]), "node": " ".join(owners(nodes, row["slot"], row["slot"]))}
        for row in answer["slots"]
    ]


def owners(nodes: Iterable[Row], first: int, last: int) -> list[str]:
    """The nodes of a cluster that own any of these slots."""
    return [node["node"] for node in nodes if any(begin <= last and end >= first for begin, end in node["slots"])]


SLOTS = View(
    "Slots",
    ("slots", "nodes"),
    _slots,
    lambda row: str(row["what"]),
    (
        rate_column("rate", "RATE/s"),
        SHARE,
        BAR,
        Column("SLOT OR TAG", lambda row: row["what"], 24, tint=lambda _: Tint.STRONG),
        Column("NODE", value_of("node"), 5),
        Column("KEYS", keys_of_slot),
    ),
    (SortOrder("slots"), SortOrder(_TAGS)),
)

_WHO = ("app", "user", "client_name", "library", "address")


def who(row: Row) -> str:
    """A client on one line."""
    return " ".join(str(row[name]) for name in _WHO if row.get(name))


CLIENTS = View(
    "Clients",
    ("clients",),
    _sorted("clients", "clients"),
    who,
    (
        rate_column("rate", "RATE/s"),
        SHARE,
        Column("", lambda row: row["share"], 10, bar=True, least=100, tint=lambda _: Tint.BAR),
        size_column("bytes_in", "IN/s"),
        size_column("bytes_out", "OUT/s"),
        Column(
            "REFUSED",
            lambda row: rate(row["refused"]),
            7,
            right=True,
            tint=lambda row: Tint.BAD if row["refused"] else Tint.PLAIN,
        ),
        Column("CONN/s", lambda row: rate(row["connects"]), 6, right=True),
        Column("TIME", lambda row: share(row["redis_time"]), 6, right=True, least=90),
        Column("APP", value_of("app"), 12, tint=lambda _: Tint.STRONG),
        Column("USER", value_of("user"), 10, least=100),
        Column("NAME", value_of("client_name")),
        Column("ID", value_of("id"), 9, least=120),
        Column("LIBRARY", value_of("library"), least=90),
        Column("ADDRESS", value_of("address"), 15, least=110),
    ),
    (
        SortOrder("rate", lambda row: row["rate"]),
        SortOrder("bytes", lambda row: row["bytes_in"] + row["bytes_out"]),
        SortOrder("refused", lambda row: row["refused"]),
    ),
)

SLOW = View(
    "Slow",
    ("slow",),
    _sorted("slow", "commands"),
    lambda row: f"{row['time']} {row['command']} {row['key']} {who(row)}",
    (
        Column("TIME", lambda row: clock(row["time"]), 9),
        Column("REDIS ms", lambda row: milliseconds(row["at_redis_ms"]), 8, right=True),
        Column("PROXY ms", lambda row: milliseconds(row["in_proxy_ms"]), 8, right=True),
        size_column("bytes_in", "IN", 90),
        size_column("bytes_out", "OUT", 90),
        Column("COMMAND", lambda row: row["command"], 12, tint=lambda _: Tint.STRONG),
        Column("KEY", value_of("key")),
        TENANTS_NAME,
        Column("CLIENT", who),
    ),
    (
        SortOrder("time taken", lambda row: number(row, "at_redis_ms") + number(row, "in_proxy_ms")),
        SortOrder("at Redis", lambda row: number(row, "at_redis_ms")),
        SortOrder("in Keyrail", lambda row: number(row, "in_proxy_ms")),
        SortOrder("newest", lambda row: row["time"]),
    ),
    frozenset({"count", "route"}),
)


# Rules


def _rules(told: Told, order: SortOrder) -> list[Row]:
    rules = [{**rule, "count": sum(rule["hits"].values())} for rule in told["rules"]["rules"]]
    return sorted(rules, key=order.weight, reverse=True) if order.weight is not None else rules


def _mode_tint(row: Row) -> Tint:
    return Tint.GOOD if row["mode"] == "enforce" else Tint.FAINT if row["mode"] == "off" else Tint.PLAIN


RULES = View(
    "Rules",
    ("rules", "violations"),
    _rules,
    lambda row: str(row["rule"]),
    (
        Column("HITS", lambda row: f"{row['count']:,}", 10, right=True),
        Column("OUT OF", lambda row: f"{row['out_of']:,}", 12, right=True),
        Column("MODE", lambda row: row["mode"], 11, tint=_mode_tint),
        Column("LAST SEEN", lambda row: clock(row["last_seen"]), 9),
        Column("RULE", lambda row: row["rule"], tint=lambda _: Tint.STRONG),
        Column("WHERE", lambda row: row["where"], least=100),
    ),
    (
        SortOrder("hits", lambda row: row["count"]),
        SortOrder("last seen", lambda row: row["last_seen"] or ""),
        SortOrder("the policy's"),
    ),
    frozenset({"route"}),
)

VIOLATIONS = (
    Column("TIME", lambda row: clock(row["time"]), 9),
    Column("MODE", value_of("mode"), 8),
    Column("RULE", value_of("rule"), 20),
    Column("WHAT", value_of("what"), 9, least=90),
    Column("COMMAND", lambda row: f"and {row['dropped']} more" if "dropped" in row else row.get("command"), 12),
    Column("KEY", lambda row: row.get("key") or row.get("why")),
    Column("CLIENT", who, least=100),
)
"""The columns of the newest violations, below the rules."""


# Incidents


def _tint_of_incident(row: Row) -> Tint:
    return Tint.BAD if row["ended"] is None else Tint.FAINT


INCIDENTS = View(
    "Incidents",
    ("incidents",),
    _sorted("incidents", "incidents"),
    lambda row: str(row["id"]),
    (
        Column("BEGAN", lambda row: when(row["began"]), 15),
        Column("ENDED", lambda row: "not over" if row["ended"] is None else when(row["ended"]), 15),
        Column("ID", lambda row: row["id"], 8, tint=_tint_of_incident),
        Column("KIND", lambda row: row["kind"], 10),
        Column("WHAT", lambda row: row["lines"][0] if row["lines"] else row["subject"], tint=_tint_of_incident),
    ),
    (SortOrder("newest"), SortOrder("open", lambda row: row["ended"] is None)),
    frozenset({"count", "route"}),
)

# Nodes


def _role(row: Row) -> str:
    return "primary" if row["role"] == "primary" else f"replica of {row['primary'] or UNKNOWN}"


def _health_tint(row: Row) -> Tint:
    return Tint.GOOD if row["health"] == "ok" else Tint.BAD


def _lag_ms(row: Row) -> float | None:
    return None if row["lag_seconds"] is None else float(row["lag_seconds"]) * 1000


def _reads(row: Row) -> str:
    """What a replica has answered in its primary's place, in brackets if it answers nothing now."""
    if row["role"] == "primary" or not (row["reads"] or row["serves"]):
        return UNKNOWN
    return f"{row['reads']:,}" if row["serves"] else f"({row['reads']:,})"


def _nodes(told: Told, order: SortOrder) -> list[Row]:
    """The nodes; of each replica, its share of all reads that replicas have answered."""
    found = _sorted("nodes", "nodes")(told, order)
    total = sum(row["reads"] for row in found)
    shares = [row["reads"] / total if total and row["role"] == "replica" else None for row in found]
    return [{**row, "read_share": part} for row, part in zip(found, shares, strict=True)]


def slot_count(row: Row) -> int:
    """How many slots a node owns."""
    return sum(end + 1 - begin for begin, end in row["slots"])


NODES = View(
    "Nodes",
    ("nodes",),
    _nodes,
    lambda row: str(row["node"]),
    (
        Column("NODE", lambda row: row["node"], 8, tint=lambda _: Tint.STRONG),
        Column("ROLE", _role, 14),
        Column("HEALTH", lambda row: row["health"], 8, tint=_health_tint),
        Column("SLOTS", lambda row: f"{slot_count(row):,}", 6, right=True),
        rate_column("rate", "RATE/s"),
        Column("LAG", lambda row: size(row["lag"]), 7, right=True),
        Column("LAG ms", lambda row: milliseconds(_lag_ms(row)), 7, right=True, least=110),
        Column("READS", _reads, 12, right=True, least=100),
        Column(
            "SHARE",
            lambda row: share(row["read_share"]),
            6,
            right=True,
            least=100,
            worth=lambda row: row["read_share"] is not None,
        ),
        Column(
            "FAILED",
            lambda row: f"{row['read_errors']:,}" if row["read_errors"] else UNKNOWN,
            6,
            right=True,
            tint=lambda row: Tint.BAD if row["read_errors"] else Tint.PLAIN,
            worth=lambda row: bool(row["read_errors"]),
        ),
        Column("PING ms", lambda row: milliseconds(row["ping_ms"]), 7, right=True),
        Column("CONNECTIONS", lambda row: row["connections"], 11, right=True, least=100),
        Column("ADDRESS", value_of("address")),
    ),
    (
        SortOrder("name"),
        SortOrder("rate", lambda row: row["rate"]),
        SortOrder("lag", lambda row: number(row, "lag")),
        SortOrder("reads", lambda row: row["reads"]),
        SortOrder("slots", slot_count),
    ),
    frozenset({"route"}),
)

VIEWS = (KEYS, PATTERNS, SLOTS, CLIENTS, SLOW, RULES, INCIDENTS, NODES)
WINDOWS = {5: "5s", 10: "10s", 60: "1m", 600: "10m", 3600: "1h"}
"""Windows in seconds, and their names."""
