"""What can be asked about the whole process group: ``KEYRAIL INFO``, ``POLICY`` and ``RULES``, and ``/policy``.

Every answer has its ``age`` in seconds: the figures are the workers' last reports.
"""

from typing import Any

from proxy import __version__
from proxy.form import FORM
from proxy.policy import Policy
from proxy.policy.model import PolicyRule
from proxy.policy.precedence import voice
from proxy.server.crew import Crew
from proxy.server.findings import route_findings
from proxy.server.kill_switch import KillSwitch


def brief(crew: Crew, switch: KillSwitch, route: int, subject: str) -> dict[str, Any]:
    """Return what there is to know of a route and ``info``, ``policy`` or ``rules``."""
    age = {"age": round(crew.age(), 3)}
    if subject == "info":
        return age | _info(crew, switch, route)
    if subject == "policy":
        return age | route_policy(crew, route) | {"kill_switch": switch.status()}
    return age | route_findings(crew, route)


def _info(crew: Crew, switch: KillSwitch, route: int) -> dict[str, Any]:
    its = crew.figures()[route]
    commands = its.counters.get("commands", {})
    forwarded = commands.get("pooled", 0) + commands.get("pinned", 0)
    engine = its.engine or {"name": "unknown", "version": "unknown"}
    return {
        "version": __version__,
        "form": FORM,
        "route": its.name,
        "ready": its.ready,
        "reason": its.reason,
        "upstream": f"{engine['name']} {engine['version']}",
        "workers": crew.living,
        "worker_restarts": crew.restarts,
        "policy": crew.policies[route].source,
        "policy_generation": crew.generation,
        "kill_switch": switch.on,
        "clients": its.gauges.get("clients", 0),
        "clients_total": its.counters.get("clients_total", 0),
        "commands_pooled": commands.get("pooled", 0),
        "commands_pinned": commands.get("pinned", 0),
        "commands_local": commands.get("local", 0),
        "pooled_share": round(commands.get("pooled", 0) / forwarded, 4) if forwarded else 1.0,
        "features_off": its.features_off,
    }


def route_policy(crew: Crew, route: int) -> dict[str, Any]:
    """Return the policy of one route: its files, its apps, and the mode that each rule has for whom, and why."""
    policy = crew.policies[route]
    return {
        "route": crew.figures()[route].name,
        "policy": policy.source,
        "generation": crew.generation,
        "files": list(policy.files),
        "apps": [app.name for app in policy.apps],
        "rules": [_rule(policy, rule, crew.paused) for rule in policy.rules],
    }


def _rule(policy: Policy, rule: PolicyRule, paused: bool) -> dict[str, Any]:
    usual = voice(policy, rule, None, paused)
    found: dict[str, Any] = {
        "rule": rule.name,
        "where": str(rule.where),
        "locked": rule.locked,
        "mode": str(usual.stage),
        "by": usual.why,
        "exceptions": len(usual.exceptions),
    }
    others = {app.name: voice(policy, rule, app, paused) for app in policy.apps if rule.app in ("", app.name)}
    same = usual.stage, usual.exceptions
    different = {name: its for name, its in others.items() if (its.stage, its.exceptions) != same}
    if different:
        found["apps"] = {
            name: {"mode": str(its.stage), "by": its.why, "exceptions": len(its.exceptions)}
            for name, its in different.items()
        }
    return found
