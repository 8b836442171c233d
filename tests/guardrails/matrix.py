"""The matrix's two sides: what is tried (a case of each guardrail) and in which form a client sends it.

Every case has two apps of its own, in which its rule alone is on: enforced in one, audited in the other. A client says
by its name which it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import yaml

from proxy.rules.breaker.rule import BreakerSettings
from proxy.rules.limits.rule import LimitsSettings
from proxy.rules.rule import Settings
from tests.resp import Wire, pack

MODES = ("enforce", "audit")


@dataclass(frozen=True)
class Case:
    """One guardrail. `setup` makes the keys, `send` is what it is about; `without` are forms in which it means no such
    thing.

    Where the command is changed and not refused, `ttl_of` names a key that has a TTL in the end, and `leaves` makes
    the keys that are there then, if they are others. `second` is the same fault in another key or argument. Rules that
    cannot stand in one policy are in another `group`.
    """

    name: str
    rule: dict[str, object]
    send: str
    setup: tuple[str, ...] = ()
    second: str = ""
    refused: bool = True
    ttl_of: str = ""
    leaves: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    group: str = "common"


SCHEMA = {
    "cart": {"key": "cart:{user:int}", "type": "hash", "ttl": {"default": "2h"}, "size": {"members": 2}},
    "page": {"key": "page:{path...}", "type": "string", "ttl": {"default": "5m"}, "size": "4B"},
}
SILENT = frozenset({"without replies", "reply skipped"})
"""Here the command's own reply never comes."""
NOTHING_FOLLOWS = SILENT | {"after a watch", "tracking"}
"""Here no hidden command goes along."""

NOT_IN_MULTI = frozenset({"transaction", "transaction in steps"})

ALLOWED = ["GET", "ECHO", "MULTI", "WATCH", "CLIENT REPLY", "CLIENT TRACKING"]
"""What the forms themselves need, and GET."""

CASES = [
    Case("refuse", {"refuse": ["KEYS"]}, "KEYS *", ("SET k:1 v",)),
    Case("refuse-arguments", {"refuse": ["CONFIG SET"]}, "CONFIG SET maxmemory 0"),
    Case("refuse-but", {"refuse": ["FLUSHALL"], "allow": ["FLUSHALL ASYNC"]}, "FLUSHALL SYNC", ("SET k:1 v",)),
    Case("allow-only", {"allow_only": ALLOWED}, "SET k:1 w", ("SET k:1 v",)),
    Case("unknown", {"unknown_commands": "refuse"}, "NO.SUCH k:1"),
    Case("read-only", {"read_only": "true"}, "SET k:1 w", ("SET k:1 v",), "MSET k:1 w k:2 w"),
    Case("databases", {"databases": ["0"]}, "COPY k:1 k:2 DB 1", ("SET k:1 v",)),
    Case(
        "transactions",
        {"transactions": "refuse"},
        "WATCH k:1",
        without=NOT_IN_MULTI | {"after a watch"},
        group="apart",
    ),
    Case("one-slot", {"one_slot": "true"}, "MGET k:1 k:2", ("SET k:1 v",), "DEL {a}:1 {a}:2 {b}:3"),
    Case("names", {"names": {"segments": "2.."}}, "SET bad v", (), "MSET k:1 v bad v"),
    Case(
        "names-by-pattern",
        {"names": {"prefixes": ["k:", "w:"]}},
        "SORT k:1 BY nosort GET l:*",
        ("RPUSH k:1 a", "SET l:a v"),
        "SORT_RO k:1 BY *:w GET #",
    ),
    Case("in-schema", {"names": {"in_schema": "true"}, "applies_to": "writes"}, "SET no v", (), "MSET page:a v no v"),
    Case("schema-type", {"schema": "type"}, "LPUSH cart:1 x", ("HSET cart:1 a 1",), "LPUSH cart:2 x"),
    Case("schema-size", {"schema": "size"}, "SET page:a longer", (), "MSET page:a x page:b longer"),
    Case("sizes", {"sizes": {"value": "8B"}}, "SET k:1 longer:than:eight", (), "MSET k:1 x k:2 longer:than:eight"),
    Case("members", {"sizes": {"members": "2"}}, "RPUSH k:1 a b c", (), "HSET k:1 a 1 b 2 c 3"),
    Case("fan-out", {"fan_out": {"max": "2"}}, "MGET k:1 k:2 k:3", ("SET k:1 v",), "DEL k:1 k:2 k:3"),
    Case("ranges", {"ranges": {"max": "2"}}, "LRANGE k:1 0 -1", ("RPUSH k:1 a b c",), "ZRANGE k:2 0 5"),
    Case("scan-counts", {"scan_counts": {"max": "10"}}, "SCAN 0 COUNT 999"),
    Case("whole", {"whole_collections": {"commands": ["HGETALL"]}}, "HGETALL k:1", ("HSET k:1 a 1",)),
    Case(
        "whole-max",
        {"whole_collections": {"max": "2", "unknown": "refuse"}},
        "HGETALL k:1",
        ("HSET k:1 a 1 b 2 c 3", "SADD k:2 a b", "SADD k:3 c"),
        "SUNION k:2 k:3",
        without=frozenset({"another type"}),  # for the sizes that were looked up are remembered
    ),
    Case("replies", {"replies": {"elements": "1"}}, "HGETALL k:1", ("HSET k:1 a 1 b 2",), refused=False),
    Case("keys", {"keys_by_scan": {"keys": "1"}}, "KEYS *", ("SET k:1 v", "SET k:2 v"), group="apart"),
    Case(
        "scripts",
        {"scripts": {"commands": "follow_rules", "dynamic_calls": "refuse"}},
        "EVAL return(redis.call(ARGV[1],KEYS[1])) 1 k:1 DEL",
        ("SET k:1 v",),
        "EVAL return(redis['call']('DEL',KEYS[2])) 2 k:2 k:1",
    ),
    Case("replace", {"replace": {"DEL": "UNLINK"}}, "DEL k:1 k:2", ("SET k:1 v",), "DEL k:2 k:1", refused=False),
    Case("lifetime", {"lifetime": {"default": "5m", "keys": "k:*"}}, "SET k:1 v", refused=False, ttl_of="k:1"),
    Case(
        "lifetime-behind",
        {"lifetime": {"default": "5m", "keys": ["k:*", "l:*"]}},
        "HSET k:1 f v",
        second="MSETNX l:1 v k:1 w",
        refused=False,
        ttl_of="k:1",
        without=NOTHING_FOLLOWS,
    ),
    Case(
        "lifetime-bounds",
        {"lifetime": {"default": "30m", "max": "1h", "outside": "refuse", "persist": "refuse", "keys": "k:*"}},
        "EXPIRE k:1 9999",
        ("SET k:1 v EX 60",),
        "GETEX k:1 PERSIST",
    ),
    Case(
        "lifetime-sliding",
        {"lifetime": {"default": "5m", "sliding": "true", "keys": "s:*"}},
        "GET s:1",
        ("SET s:1 v EX 60",),
        "MGET s:1 s:2",
        refused=False,
        ttl_of="s:1",
    ),
    Case(
        "trim",
        {"collections": {"members": "2", "lists": "trim"}},
        "RPUSH k:1 c",
        ("RPUSH k:1 a b",),
        "RPUSHX k:1 c",
        refused=False,
        leaves=("RPUSH k:1 b c",),
        without=NOTHING_FOLLOWS | {"hidden ones are forbidden"},  # what cannot be trimmed is refused when too long
    ),
    Case("schema-ttl", {"schema": "ttl"}, "SET page:a v", refused=False, ttl_of="page:a"),
]

ELSEWHERE: dict[type[Settings], str] = {
    LimitsSettings: "it is about what went before: test_limits.py sends these forms until there is too much",
    BreakerSettings: "it is about Redis, whatever the command: test_breaker.py",
}
"""Guardrails that no case can show, since one command by itself does not move them, and who shows them instead."""


def policy_text(group: str) -> str:
    """One policy with the rule of every case of a group, each on for its own two apps only."""
    apps: dict[str, object] = {}
    rules: dict[str, object] = {}
    rollout: dict[str, dict[str, str]] = {}
    for case in CASES:
        if case.group != group:
            continue
        rules[case.name] = {**case.rule, "because": "the matrix says so"}
        rollout[case.name] = {"default": "off"}
        for mode in MODES:
            app = app_of(case, mode)
            apps[app] = {"match": {"client_name": app}}
            rollout[case.name][app] = mode
    document = {"keyrail": "1", "apps": apps, "rules": rules, "rollout": rollout}
    if any("schema" in case.rule for case in CASES if case.group == group):
        document["schema"] = SCHEMA
    return yaml.safe_dump(document, sort_keys=False)


def app_of(case: Case, mode: str) -> str:
    """The app, and the client name, under which the case's rule has that mode."""
    return f"{case.name}-{mode}"


def _ask(wire: Wire, data: bytes) -> list[bytes]:
    wire.send(data)
    return [wire.frame()]


def _trickled(wire: Wire, data: bytes) -> list[bytes]:
    for index in range(len(data)):
        wire.send(data[index : index + 1])
    return [wire.frame()]


def _pipelined(wire: Wire, data: bytes) -> list[bytes]:
    wire.send(pack("ECHO", "before") * 3 + data + pack("ECHO", "behind") * 3)
    return wire.frames(7)


def _transaction(wire: Wire, data: bytes) -> list[bytes]:
    wire.send(pack("MULTI") + pack("ECHO", "a") + data + pack("ECHO", "b") + pack("EXEC"))
    return wire.frames(5)


def _transaction_in_steps(wire: Wire, data: bytes) -> list[bytes]:
    return [answer for step in (pack("MULTI"), data, pack("EXEC")) for answer in _ask(wire, step)]


def _watching(wire: Wire, data: bytes) -> list[bytes]:
    return [answer for step in (pack("WATCH", "w:w"), data, pack("UNWATCH")) for answer in _ask(wire, step)]


def _unanswered(wire: Wire, data: bytes) -> list[bytes]:
    wire.send(pack("CLIENT", "REPLY", "OFF") + data + pack("CLIENT", "REPLY", "ON"))
    return [wire.frame()]


def _skipped(wire: Wire, data: bytes) -> list[bytes]:
    wire.send(pack("CLIENT", "REPLY", "SKIP") + data + pack("ECHO", "next"))
    return [wire.frame()]


def _tracking(wire: Wire, data: bytes) -> list[bytes]:
    replies = []
    for step in (pack("CLIENT", "TRACKING", "ON", "NOLOOP"), data, pack("CLIENT", "TRACKING", "OFF")):
        wire.send(step)
        while (frame := wire.frame()).startswith(b">"):
            pass  # what is invalidated is told before the reply to what invalidates it
        replies.append(frame)
    return replies


def _mixed_case(words: list[str]) -> list[str]:
    return [words[0].swapcase().title(), *words[1:]]


FORMS: dict[str, tuple[Callable[[list[str]], bytes], Callable[[Wire, bytes], list[bytes]]]] = {
    "plain": (lambda words: pack(*words), _ask),
    "lower case": (lambda words: pack(words[0].lower(), *words[1:]), _ask),
    "mixed case": (lambda words: pack(*_mixed_case(words)), _ask),
    "inline": (lambda words: " ".join(words).encode() + b"\r\n", _ask),
    "quoted inline": (lambda words: " ".join(f'"{word}"' for word in words).encode() + b"\n", _ask),
    "byte by byte": (lambda words: pack(*words), _trickled),
    "in a pipeline": (lambda words: pack(*words), _pipelined),
    "transaction": (lambda words: pack(*words), _transaction),
    "transaction in steps": (lambda words: pack(*words), _transaction_in_steps),
    "after a watch": (lambda words: pack(*words), _watching),
    "without replies": (lambda words: pack(*words), _unanswered),
    "reply skipped": (lambda words: pack(*words), _skipped),
    "tracking": (lambda words: pack(*words), _tracking),
}
"""How the words become bytes, and how the bytes are sent and the replies read; what is read is the whole of it."""
