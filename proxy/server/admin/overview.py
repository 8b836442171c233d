"""The page's figures of a route as one JSON object: the answers of the other paths, for one window and one moment.

    {"at", "route", "routes", "window", "version", "keyrail": {…}, "policy": {…}, "hotkeys": {…}, "patterns": {…},
     "slots": {…}, "clients": {…}, "slow": {…}, "nodes": […], "local_cache": {…}, "caches": true,
     "seconds": [the newest of /traffic], "incidents": […], "remedies": […], "apps": [name, …], "takes_orders": true}

``caches``: whether the route can have a local cache. ``takes_orders``: whether a viewer with the token can add a remedy
from the page.

It comes from the workers' last reports and sends no request, so it works while workers and Redis are stuck.
"""

import time
from collections.abc import Mapping
from typing import Any

from proxy import __version__
from proxy.policy.precedence import effective_mode
from proxy.server.admin.local_cache import local_cache
from proxy.server.admin.remedies import present as present_remedy
from proxy.server.admin.state import AdminState
from proxy.server.admin.traffic import hot_keys
from proxy.server.incidents import present as present_incident
from proxy.server.rule_stats import saving
from proxy.traffic import json_views
from proxy.traffic.labels import moment

_KEYS, _PATTERNS, _SLOTS, _CLIENTS, _SLOW = 25, 25, 10, 12, 12
_RULES, _INCIDENTS = 50, 8
_NEW_SECONDS = 5
"""Seconds of /traffic in each event: a viewer may have missed the last events."""


def overview(state: AdminState, route: int, window: int) -> dict[str, Any]:
    """Return the object for one route and window."""
    now = time.time()
    time_series, redaction = state.workers.time_series[route], state.workers.redaction(route)
    name = state.settings.routes[route].name
    incidents = [each for each in state.incidents.all() if each.route == name]
    return {
        "at": moment(now),
        "route": name,
        "routes": [each.name for each in state.settings.routes],
        "window": window,
        "version": __version__,
        "keyrail": _keyrail(state, route),
        "policy": _policy(state, route),
        "hotkeys": hot_keys(state, route, window, _KEYS, "all", now),
        "patterns": json_views.patterns(time_series, window, _PATTERNS, now, redaction),
        "slots": json_views.slots(time_series, window, _SLOTS, now, redaction),
        "clients": json_views.clients(time_series, window, _CLIENTS, now),
        "slow": json_views.slow(time_series, _SLOW, redaction),
        "nodes": state.workers.figures()[route].nodes,
        "local_cache": local_cache(state, route, window),
        "seconds": json_views.seconds(time_series)[-_NEW_SECONDS:],
        "incidents": [present_incident(each) for each in incidents[:_INCIDENTS]],
        "remedies": [present_remedy(state, each) for each in state.remedies.standing if each.route == name],
        "apps": [each.name for each in state.workers.policies[route].apps],
        "takes_orders": state.settings.admin_token_file is not None,
    }


def history(state: AdminState, route: int, window: int) -> dict[str, Any]:
    """The past of the route, as in ``/traffic``, and of the busiest keys."""
    time_series, redaction = state.workers.time_series[route], state.workers.redaction(route)
    return json_views.traffic(time_series) | {
        "keys": json_views.pasts(time_series, window, _KEYS, time.time(), redaction)
    }


def _keyrail(state: AdminState, route: int) -> dict[str, Any]:
    its = state.workers.figures()[route]
    engine = its.engine
    return {
        "ready": its.ready,
        "reasons": state.readiness().reasons(),
        "warnings": state.readiness().warnings_of(None),
        "workers": state.workers.living,
        "upstream": f"{engine['name']} {engine['version']}" if engine else None,
        "clients": its.gauges.get("clients", 0),
    }


def _policy(state: AdminState, route: int) -> dict[str, Any]:
    """The rules with most hits come first; hits are counted since the start."""
    policy, workers = state.workers.policies[route], state.workers
    hits = {rule: _summed(apps) for rule, apps in workers.figures()[route].counters.get("verdicts", {}).items()}
    compressed = workers.figures()[route].counters.get("compressed", {})
    ranked = sorted(policy.rules, key=lambda rule: -sum(hits.get(rule.name, {}).values()))
    return {
        "source": policy.source,
        "generation": workers.generation,
        "reload_failures": state.reloader.failures,
        "kill_switch": state.switch.status(),
        "rules": [
            {
                "rule": rule.name,
                "mode": str(effective_mode(policy, rule, None, workers.paused).stage),
                "where": str(rule.where),
                "hits": hits.get(rule.name, {}),
                "compressed": _compressed(compressed.get(rule.name)),
            }
            for rule in ranked[:_RULES]
        ],
        "other_rules": len(ranked[_RULES:]),
    }


def _compressed(figures: Mapping[str, float] | None) -> dict[str, float | None] | None:
    # None of a rule that compresses nothing.
    if figures is None:
        return None
    told = saving(figures)
    return {name: told[name] for name in ("saved_bytes", "ratio", "seconds", "decompressed_seconds")}


def _summed(apps: dict[str, dict[str, int]]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for outcomes in apps.values():
        for outcome, count in outcomes.items():
            summed[outcome] = summed.get(outcome, 0) + count
    return summed
