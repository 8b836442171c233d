"""The findings of each rule, over all workers: the content of ``/rules`` and ``KEYRAIL RULES``.

    {"age": 0.4, "routes": [{"route": "default", "policy": "platform.yaml", "generation": 3, "rules": [
        {"rule": "no-keyspace-walks", "mode": "audit", "where": "platform.yaml:7", "hits": {"audit refused": 3},
         "out_of": 90210, "first_seen": "2026-11-21T20:12:03.123Z", "last_seen": …,
         "apps": {"reports": {"mode": "warn", "hits": {"warn refused": 3}, "out_of": 5120,
                              "first_seen": …, "last_seen": …, "inspected": 3,
                              "shapes": [{"shape": "user:{int}", "count": 3}], "other_shapes": 0,
                              "clients": [{"user", "client_name", "library", "address", "count"}], "other_clients": 0,
                              "sample": {"time", "mode", "what", "command", "shape", "key", "user", …}}}}]}]}

A rule about the local cache also has ``"local_cache": {"enforce": {"hits", "bytes", "saved_redis_seconds"}, "audit":
{…}}``: what it has answered from memory, and in other modes what it would have answered.

Each rule of the policy is listed, even without hits; ``out_of`` is the number of commands that it could have judged.
Rules that let replicas answer also have ``reads``: how many commands replicas could have answered, of all apps.
All counts begin when the rule came into force in this process group. Shapes and clients are counted over the
``inspected`` hits: in a flood, not all hits are inspected. ``mode`` is the present mode, for clients of no app and for
each app. ``age`` is in seconds.
"""

from collections.abc import Mapping
from typing import Any

from proxy.net.policy.cache_scope import cache_rules
from proxy.policy.apps import UNKNOWN
from proxy.policy.model import Policy, PolicyRule
from proxy.policy.precedence import effective_mode
from proxy.server.workers import Workers
from proxy.traffic.cache_figures import CacheFigures
from proxy.traffic.evidence import Record, Records, present
from proxy.traffic.rule_totals import MOVABLE


def rule_stats(workers: Workers) -> dict[str, Any]:
    """Return the rule statistics of all routes."""
    return {
        "age": round(workers.age(), 3),
        "routes": [route_rule_stats(workers, i) for i in range(len(workers.policies))],
    }


def route_rule_stats(workers: Workers, route: int) -> dict[str, Any]:
    """Return one route's."""
    its, policy = workers.figures()[route], workers.policies[route]
    evidence, out_of = workers.evidence(route), its.counters.get("out_of", {})
    about_cache, cached = cache_rules(policy), its.counters.get("local_cache_rules", {})
    rules = [
        _rule(policy, rule, workers.paused, evidence, out_of.get(rule.name, {}))
        | (_from_memory(cached.get(rule.name, {})) if rule.name in about_cache else {})
        for rule in policy.rules
    ]
    return {"route": its.name, "policy": policy.source, "generation": workers.generation, "rules": rules}


def _from_memory(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {"local_cache": CacheFigures(**figures).by_mode()}


def _rule(
    policy: Policy, rule: PolicyRule, paused: bool, evidence: Records, out_of: Mapping[str, int]
) -> dict[str, Any]:
    total = Record()
    asked = 0
    by_app: dict[str, dict[str, Any]] = {}
    for app in (None, *policy.apps):
        name = UNKNOWN if app is None else app.name
        if rule.app not in ("", name):
            continue
        record = evidence.get((rule.name, name))
        if record is not None:
            total.merge(record)
        # Hits arrive a moment before their commands are added up.
        least = 0 if record is None else sum(record.hits.values())
        its = max(out_of.get(name, 0), least)
        asked += its
        mode = str(effective_mode(policy, rule, app, paused).stage)
        found = {"hits": {}} if record is None else present(record)
        by_app[name] = {"mode": mode, "hits": found.pop("hits"), "out_of": its, **found}
    summary = present(total)
    return {
        "rule": rule.name,
        "mode": str(effective_mode(policy, rule, None, paused).stage),
        "where": str(rule.where),
        "hits": summary["hits"],
        "out_of": asked,
        **({"reads": max(out_of.get(MOVABLE, 0), sum(total.hits.values()))} if rule.settings.moves_reads else {}),
        "first_seen": summary["first_seen"],
        "last_seen": summary["last_seen"],
        "apps": by_app,
    }
