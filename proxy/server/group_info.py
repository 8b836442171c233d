"""Answers about the whole group: ``KEYRAIL INFO``, ``POLICY``, ``RULES`` and traffic, and ``/policy``.

The figures come from the workers' last reports, so every answer has an ``age`` in seconds. The answers are available
while Redis or a worker is saturated, stuck or down.

HOTKEYS, PATTERNS, SLOTS, CLIENTS, SLOW and INCIDENTS have the content of the admin port's paths of these names, in a
form for terminals: without the heat map, and with one line for each client of a key.
"""

import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from proxy import __version__
from proxy.build_form import BUILD_FORM
from proxy.policy.model import Policy, PolicyRule
from proxy.policy.precedence import effective_mode
from proxy.server.incidents import Incidents, present
from proxy.server.kill_switch import KillSwitch
from proxy.server.rule_stats import route_rule_stats
from proxy.server.workers import Workers
from proxy.session.ports.info_query import MOST_ROWS, InfoQuery
from proxy.traffic import json_views

_FOR_CLIENTS = "commands do not reach Redis: /readyz on the admin port says why"
"""The reason itself can have addresses of servers, which clients are not told: they could go around the policy."""


def group_info(
    workers: Workers, switch: KillSwitch, incidents: Incidents, route: int, query: InfoQuery
) -> dict[str, Any]:
    """Return the answer to a query about a route."""
    age = {"age": round(workers.age(), 3)}
    if query.subject == "incidents":
        name = workers.figures()[route].name
        found = (each for each in incidents.all() if each.route == name)
        return age | {"incidents": [present(each) for each in islice(found, MOST_ROWS)]}
    if query.subject in _TRAFFIC:
        return age | _TRAFFIC[query.subject](workers, route, query)
    if query.subject == "info":
        info = route_info(workers, switch, route)
        return age | info | {"reason": _FOR_CLIENTS if info["reason"] else ""}
    if query.subject == "policy":
        return age | route_policy(workers, route) | {"kill_switch": switch.status()}
    return age | route_rule_stats(workers, route)


def route_info(workers: Workers, switch: KillSwitch, route: int) -> dict[str, Any]:
    """Return the version and state of this Keyrail, for one route."""
    its = workers.figures()[route]
    commands = its.counters.get("commands", {})
    forwarded = commands.get("pooled", 0) + commands.get("pinned", 0)
    engine = its.engine or {"name": "unknown", "version": "unknown"}
    return {
        "version": __version__,
        "form": BUILD_FORM,
        "route": its.name,
        "ready": its.ready,
        "reason": its.reason,
        "upstream": f"{engine['name']} {engine['version']}",
        "workers": workers.living,
        "worker_restarts": workers.restarts,
        "policy": workers.policies[route].source,
        "policy_generation": workers.generation,
        "kill_switch": switch.on,
        "clients": its.gauges.get("clients", 0),
        "clients_total": its.counters.get("clients_total", 0),
        "commands_pooled": commands.get("pooled", 0),
        "commands_pinned": commands.get("pinned", 0),
        "commands_local": commands.get("local", 0),
        "pooled_share": round(commands.get("pooled", 0) / forwarded, 4) if forwarded else 1.0,
        "features_off": its.features_off,
    }


def route_policy(workers: Workers, route: int) -> dict[str, Any]:
    """Return the policy of one route: its files, its apps, and each rule's mode for each app, with the reason."""
    policy = workers.policies[route]
    return {
        "route": workers.figures()[route].name,
        "policy": policy.source,
        "generation": workers.generation,
        "files": list(policy.files),
        "apps": [app.name for app in policy.apps],
        "rules": [_rule(policy, rule, workers.paused) for rule in policy.rules],
    }


def _rule(policy: Policy, rule: PolicyRule, paused: bool) -> dict[str, Any]:
    usual = effective_mode(policy, rule, None, paused)
    found: dict[str, Any] = {
        "rule": rule.name,
        "where": str(rule.where),
        "locked": rule.locked,
        "mode": str(usual.stage),
        "by": usual.why,
        "at": str(usual.stage.where),
        "exceptions": len(usual.exceptions),
    }
    others = {app.name: effective_mode(policy, rule, app, paused) for app in policy.apps if rule.app in ("", app.name)}
    same = usual.stage, usual.exceptions
    different = {name: its for name, its in others.items() if (its.stage, its.exceptions) != same}
    if different:
        found["apps"] = {
            name: {"mode": str(its.stage), "by": its.why, "at": str(its.stage.where), "exceptions": len(its.exceptions)}
            for name, its in different.items()
        }
    return found


def _hot_keys(workers: Workers, route: int, query: InfoQuery) -> dict[str, Any]:
    redaction, hot = workers.redaction(route), workers.policies[route].alerts.hot_key
    if query.prefix:
        series, now = workers.time_series[route], time.time()
        return json_views.hot_keys_of_tenant(series, query.window, MOST_ROWS, query.by, now, redaction, query.prefix)
    told = json_views.hot_keys(
        workers.time_series[route], query.window, MOST_ROWS, query.by, time.time(), redaction, hot
    )
    return {**told, "keys": [{**key, **_clients(key)} for key in told["keys"]]}


def _clients(key: dict[str, Any]) -> dict[str, Any]:
    return {"clients": [_client(each) for each in key["clients"]]}


def _client(client: dict[str, Any]) -> str:
    """One client that is behind a key: 91.0% app checkout, user default, worker-7, go-redis 9.7, 10.0.0.7, new."""
    words = [f"{client['share']:.1%} app {client['app']}", f"user {client['user']}"]
    words += [client[name] for name in ("client_name", "library", "address") if client[name]]
    return ", ".join([*words, "new"] if client["new"] else words)


def _patterns(workers: Workers, route: int, query: InfoQuery) -> dict[str, Any]:
    return json_views.patterns(
        workers.time_series[route], query.window, MOST_ROWS, time.time(), workers.redaction(route)
    )


def _slots(workers: Workers, route: int, query: InfoQuery) -> dict[str, Any]:
    now, series = time.time(), workers.time_series[route]
    told = json_views.slots(series, query.window, MOST_ROWS, now, workers.redaction(route))
    found = {"unusual_tags": json_views.unusual_tags(series, query.window, now)}
    return {name: value for name, value in told.items() if name != "heat"} | found


def _clients_of_route(workers: Workers, route: int, query: InfoQuery) -> dict[str, Any]:
    return json_views.clients(workers.time_series[route], query.window, MOST_ROWS, time.time())


def _slow(workers: Workers, route: int, _: InfoQuery) -> dict[str, Any]:
    return json_views.slow(workers.time_series[route], MOST_ROWS, workers.redaction(route))


_TRAFFIC: dict[str, Callable[[Workers, int, InfoQuery], dict[str, Any]]] = {
    "hotkeys": _hot_keys,
    "patterns": _patterns,
    "slots": _slots,
    "clients": _clients_of_route,
    "slow": _slow,
}
