"""The findings of each rule, over all workers: the content of ``/rules`` and ``KEYRAIL RULES``.

    {"age": 0.4, "routes": [{"route": "default", "policy": "platform.yaml", "generation": 3, "rules": [
        {"rule": "no-keyspace-walks", "mode": "audit", "where": "platform.yaml:7", "hits": {"audit refused": 3},
         "out_of": 90210, "first_seen": "2026-11-21T20:12:03.123Z", "last_seen": …,
         "apps": {"reports": {"mode": "warn", "hits": {"warn refused": 3}, "out_of": 5120,
                              "first_seen": …, "last_seen": …, "inspected": 3,
                              "shapes": [{"shape": "user:{int}", "count": 3}], "other_shapes": 0,
                              "clients": [{"user", "client_name", "library", "address", "count"}], "other_clients": 0,
                              "sample": {"time", "mode", "what", "command", "shape", "words", "why", "user", …}}}}]}]}

A rule about the local cache also has ``"local_cache": {"enforce": {"hits", "bytes", "saved_redis_seconds"}, "audit":
{…}}``: what it has answered from memory, and in other modes what it would have answered.

A rule that compresses also has ``"compressed": {"values", "plain_bytes", "stored_bytes", "saved_bytes", "ratio",
"seconds", "as_they_are", "decompressed_values", …}``: in all modes, what it has or would have compressed, and what was
decompressed; ``as_they_are`` are the values of which compressing saves less than a tenth, ``ratio`` is the plain bytes
by the stored ones (null before the first value), ``seconds`` are of a processor.

Each rule of the policy is listed, even without hits; ``out_of`` is the number of commands that it could have judged.
A rule that judges by the last scan has ``"quota": {"scan": "2026-…", "missing": "", "age_seconds", "max_age_seconds",
"judges", "per", "keys", "bytes", "owners": {"checkout": {"keys", "bytes", "gone_at_most", "least_keys", "least_bytes",
"creating_commands", "bytes_of_these", "over"}}}``: ``scan`` is null if there is none, and ``missing`` says why; unless
it ``judges``, it refuses nothing, since the scan is too old. Rules that let replicas answer also have ``reads``: how
many commands replicas could have answered, of all apps.
All counts begin when the rule came into force in this process group. Shapes and clients are counted over the
``inspected`` hits: in a flood, not all hits are inspected. A client's name has its ids folded, and its address is only
there if neither a user of its own nor a name tells it from others. The ``words`` of a sample have no values
(``traffic.command_form``). ``mode`` is the present mode, for clients of no app and for each app. ``age`` is in seconds.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from proxy.net.policy.cache_scope import cache_rules
from proxy.policy.apps import UNKNOWN
from proxy.policy.model import Policy, PolicyRule
from proxy.policy.precedence import effective_mode
from proxy.server.workers import Workers
from proxy.traffic.cache_figures import CacheFigures
from proxy.traffic.evidence_rows import VerdictKey, VerdictRow
from proxy.traffic.labels import LABEL_FIELDS, moment
from proxy.traffic.rule_totals import MOVABLE

Verdicts = dict[VerdictKey, VerdictRow]
_MOST_NAMED = 12
"""Shapes and clients with their own counts."""


def rule_stats(workers: Workers) -> dict[str, Any]:
    """Return the rule statistics of all routes."""
    return {
        "age": round(workers.age(), 3),
        "routes": [route_rule_stats(workers, i) for i in range(len(workers.policies))],
    }


def route_rule_stats(workers: Workers, route: int) -> dict[str, Any]:
    """Return one route's."""
    its, policy = workers.figures()[route], workers.policies[route]
    found = workers.evidence.verdicts(route)
    by_rule: dict[str, Verdicts] = {}
    for key, row in found.items():
        by_rule.setdefault(key.rule, {})[key] = row
    out_of = its.counters.get("out_of", {})
    compressed = its.counters.get("compressed", {})
    about_cache, cached = cache_rules(policy), its.counters.get("local_cache_rules", {})
    rules = [
        _rule(policy, rule, workers.paused, by_rule.get(rule.name, {}), out_of.get(rule.name, {}))
        | quota(workers, route, rule)
        | (_from_memory(cached.get(rule.name, {})) if rule.name in about_cache else {})
        | ({"compressed": saving(compressed[rule.name])} if rule.name in compressed else {})
        for rule in policy.rules
    ]
    return {"route": its.name, "policy": policy.source, "generation": workers.generation, "rules": rules}


def quota(workers: Workers, route: int, rule: PolicyRule) -> dict[str, Any]:
    """How a rule that judges by the last scan stands; nothing of any other rule."""
    if not rule.settings.judges_by_scan:
        return {}
    return {"quota": rule.settings.standing(workers.stored_keys.stored(route, rule.name), time.time())}


def saving(figures: Mapping[str, float]) -> dict[str, float | None]:
    """What a rule that compresses has done, with the bytes that this saves."""
    plain, stored = figures["plain_bytes"], figures["stored_bytes"]
    return {**figures, "saved_bytes": plain - stored, "ratio": round(plain / stored, 2) if stored else None}


def _from_memory(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {"local_cache": CacheFigures(**figures).by_mode()}


def _rule(
    policy: Policy, rule: PolicyRule, paused: bool, verdicts: Verdicts, out_of: Mapping[str, int]
) -> dict[str, Any]:
    asked = 0
    by_app: dict[str, dict[str, Any]] = {}
    for app in (None, *policy.apps):
        name = UNKNOWN if app is None else app.name
        if rule.app not in ("", name):
            continue
        its = {key: row for key, row in verdicts.items() if key.who.app == name}
        # Hits arrive a moment before their commands are added up.
        commands = max(out_of.get(name, 0), sum(row.count for row in its.values()))
        asked += commands
        mode = str(effective_mode(policy, rule, app, paused).stage)
        found = _present(its) if its else {"hits": {}}
        by_app[name] = {"mode": mode, "hits": found.pop("hits"), "out_of": commands, **found}
    summary = _present(verdicts)
    hits = sum(row.count for row in verdicts.values())
    return {
        "rule": rule.name,
        "mode": str(effective_mode(policy, rule, None, paused).stage),
        "where": str(rule.where),
        "hits": summary["hits"],
        "out_of": asked,
        **({"reads": max(out_of.get(MOVABLE, 0), hits)} if rule.settings.moves_reads else {}),
        "first_seen": summary["first_seen"],
        "last_seen": summary["last_seen"],
        "apps": by_app,
    }


def _present(verdicts: Verdicts) -> dict[str, Any]:
    hits, shapes, clients = Counter[str](), Counter[str](), Counter[tuple[str, ...]]()
    for key, row in verdicts.items():
        hits[f"{key.mode} {key.outcome}"] += row.count
        if key.command:
            clients[key.who[1:]] += row.count
        if key.shape:
            shapes[key.shape] += row.count
    return {
        "hits": dict(sorted(hits.items())),
        "first_seen": moment(min((row.first for row in verdicts.values()), default=0.0)),
        "last_seen": moment(max((row.last for row in verdicts.values()), default=0.0)),
        "inspected": clients.total(),
        "shapes": [{"shape": name, "count": count} for name, count in shapes.most_common(_MOST_NAMED)],
        "other_shapes": _others(shapes),
        "clients": [
            {**dict(zip(LABEL_FIELDS, who, strict=True)), "count": count}
            for who, count in clients.most_common(_MOST_NAMED)
        ],
        "other_clients": _others(clients),
        "sample": _newest_sample(verdicts.items()),
    }


def _others(counts: Counter[Any]) -> int:
    return counts.total() - sum(count for _, count in counts.most_common(_MOST_NAMED))


def _newest_sample(verdicts: Iterable[tuple[VerdictKey, VerdictRow]]) -> dict[str, Any] | None:
    found = [(row.exemplars[0], key) for key, row in verdicts if row.exemplars]
    if not found:
        return None
    newest, key = max(found, key=lambda each: each[0].at)
    named = {"mode": key.mode, "what": key.outcome, "command": key.command, "shape": key.shape}
    return {
        "time": moment(newest.at),
        **{name: value for name, value in named.items() if value},
        "words": newest.words,
        **({"why": newest.why} if newest.why else {}),
        **({"prefix": newest.prefix} if newest.prefix else {}),
        **{name: value for name, value in zip(LABEL_FIELDS, key.who[1:], strict=True) if value},
    }
