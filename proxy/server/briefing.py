"""What can be asked about the whole group: ``KEYRAIL INFO``, ``POLICY``, ``RULES`` and traffic, and ``/policy``.

Every answer has its ``age`` in seconds: the figures are the workers' last reports. So they are there while Redis, or
a worker, is saturated, stuck or down.

HOTKEYS, PATTERNS and SLOTS say what the admin port's paths of these names say, made to be read in a terminal: without
the heat map, and each client in a line of its own.
"""

import time
from collections.abc import Callable
from typing import Any

from proxy import __version__
from proxy.form import FORM
from proxy.policy.model import Policy, PolicyRule
from proxy.policy.precedence import voice
from proxy.server.crew import Crew
from proxy.server.findings import route_findings
from proxy.server.kill_switch import KillSwitch
from proxy.session.topic import MOST_ROWS, Topic
from proxy.traffic import answers


def brief(crew: Crew, switch: KillSwitch, route: int, topic: Topic) -> dict[str, Any]:
    """Return what there is to know of a route and a topic."""
    if topic.subject in _TRAFFIC:
        return _TRAFFIC[topic.subject](crew, route, topic)
    age = {"age": round(crew.age(), 3)}
    if topic.subject == "info":
        return age | route_info(crew, switch, route)
    if topic.subject == "policy":
        return age | route_policy(crew, route) | {"kill_switch": switch.status()}
    return age | route_findings(crew, route)


def route_info(crew: Crew, switch: KillSwitch, route: int) -> dict[str, Any]:
    """Return what this Keyrail is and how it does, for one route."""
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
        "at": str(usual.stage.where),
        "exceptions": len(usual.exceptions),
    }
    others = {app.name: voice(policy, rule, app, paused) for app in policy.apps if rule.app in ("", app.name)}
    same = usual.stage, usual.exceptions
    different = {name: its for name, its in others.items() if (its.stage, its.exceptions) != same}
    if different:
        found["apps"] = {
            name: {"mode": str(its.stage), "by": its.why, "at": str(its.stage.where), "exceptions": len(its.exceptions)}
            for name, its in different.items()
        }
    return found


def _hot_keys(crew: Crew, route: int, topic: Topic) -> dict[str, Any]:
    redaction, hot = crew.redaction(route), crew.policies[route].alerts.hot_key
    told = answers.hot_keys(crew.rings[route], topic.window, MOST_ROWS, topic.by, time.time(), redaction, hot)
    return {**told, "keys": [{**key, **_clients(key)} for key in told["keys"]]}


def _clients(key: dict[str, Any]) -> dict[str, Any]:
    return {"clients": [_client(each) for each in key["clients"]]}


def _client(client: dict[str, Any]) -> str:
    """One client that is behind a key: 91.0% app checkout, user default, worker-7, go-redis 9.7, 10.0.0.7, new."""
    words = [f"{client['share']:.1%} app {client['app']}", f"user {client['user']}"]
    words += [client[name] for name in ("client_name", "library", "address") if client[name]]
    return ", ".join([*words, "new"] if client["new"] else words)


def _patterns(crew: Crew, route: int, topic: Topic) -> dict[str, Any]:
    return answers.patterns(crew.rings[route], topic.window, MOST_ROWS, time.time(), crew.redaction(route))


def _slots(crew: Crew, route: int, topic: Topic) -> dict[str, Any]:
    told = answers.slots(crew.rings[route], topic.window, MOST_ROWS, time.time(), crew.redaction(route))
    return {name: value for name, value in told.items() if name != "heat"}


_TRAFFIC: dict[str, Callable[[Crew, int, Topic], dict[str, Any]]] = {
    "hotkeys": _hot_keys,
    "patterns": _patterns,
    "slots": _slots,
}
