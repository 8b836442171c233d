"""What each rule has found, over all workers: what ``/rules`` and ``KEYRAIL RULES`` tell.

    {"age": 0.4, "routes": [{"route": "default", "policy": "platform.yaml", "generation": 3, "rules": [
        {"rule": "no-keyspace-walks", "mode": "audit", "where": "platform.yaml:7",
         "hits": {"audit refused": 3}, "first_seen": "2026-11-21T20:12:03.123Z", "last_seen": …,
         "apps": {"reports": {"out_of": 5120, "hits": {"audit refused": 3}, "first_seen": …, "last_seen": …,
                              "shapes": [{"shape": "user:{int}", "count": 3}], "other_shapes": 0,
                              "clients": [{"user", "client_name", "library", "address", "count"}], "other_clients": 0,
                              "sample": {"time", "mode", "what", "command", "shape", "key", "user", …}}}}]}]}

Each rule of the policy is there, with no hits too: then ``apps`` says out of how many commands. All counts are since
the rule came into force in this process group. ``age`` is in seconds.
"""

from typing import Any

from proxy.policy import Policy
from proxy.policy.precedence import voice
from proxy.server.crew import Crew
from proxy.traffic.evidence import Record, Records, present


def findings(crew: Crew) -> dict[str, Any]:
    """Return the findings of all routes."""
    figures = crew.figures()
    return {
        "age": round(crew.age(), 3),
        "routes": [
            {
                "route": its.name,
                "policy": policy.source,
                "generation": crew.generation,
                "rules": _rules(policy, crew.evidence(index), its.counters.get("out_of", {})),
            }
            for index, (its, policy) in enumerate(zip(figures, crew.policies, strict=True))
        ],
    }


def _rules(policy: Policy, records: Records, out_of: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
    found = []
    for rule in policy.rules:
        total = Record()
        asked = out_of.get(rule.name, {})
        apps: dict[str, Any] = {app: {"out_of": count, "hits": {}} for app, count in sorted(asked.items())}
        for (name, app), record in records.items():
            if name == rule.name:
                total.merge(record)
                # Hits arrive a moment before the commands that they are of are added up.
                most = max(asked.get(app, 0), sum(record.hits.values()))
                apps[app] = {"out_of": most, **present(record)}
        summary = present(total)
        found.append(
            {
                "rule": rule.name,
                "mode": str(voice(policy, rule, None, paused=False).stage),
                "where": str(rule.where),
                **{name: summary[name] for name in ("hits", "first_seen", "last_seen")},
                "apps": apps,
            }
        )
    return found
