"""All that the page shows of a route, as one JSON object: what the other paths answer, for one window and one moment.

    {"at", "route", "routes", "window", "version", "keyrail": {…}, "policy": {…}, "hotkeys": {…}, "patterns": {…},
     "slots": {…}, "clients": {…}, "slow": {…}, "seconds": [the newest of /traffic], "incidents": […],
     "remedies": […], "apps": [name, …], "takes_orders": true}

``takes_orders``: whether somebody with the token can put a remedy in force from here.

It is made of what the workers have handed in, and asks nobody: it comes while workers and Redis are stuck.
"""

import time
from typing import Any

from proxy import __version__
from proxy.policy.precedence import voice
from proxy.server.admin.remedies import present as present_remedy
from proxy.server.admin.state import AdminState
from proxy.server.incidents import present as present_incident
from proxy.traffic import answers
from proxy.traffic.evidence import moment

_KEYS, _PATTERNS, _SLOTS, _CLIENTS, _SLOW = 25, 25, 10, 12, 12
_RULES, _INCIDENTS = 50, 8
_NEW_SECONDS = 5
"""Of these there may be more to say than in the last event."""


def overview(state: AdminState, route: int, window: int) -> dict[str, Any]:
    """Return it."""
    now = time.time()
    rings, redaction = state.crew.rings[route], state.crew.redaction(route)
    name = state.settings.routes[route].name
    incidents = [each for each in state.incidents.all() if each.route == name]
    hot = state.crew.policies[route].alerts.hot_key
    return {
        "at": moment(now),
        "route": name,
        "routes": [each.name for each in state.settings.routes],
        "window": window,
        "version": __version__,
        "keyrail": _keyrail(state, route),
        "policy": _policy(state, route),
        "hotkeys": answers.hot_keys(rings, window, _KEYS, "all", now, redaction, hot),
        "patterns": answers.patterns(rings, window, _PATTERNS, now, redaction),
        "slots": answers.slots(rings, window, _SLOTS, now, redaction),
        "clients": answers.clients(rings, window, _CLIENTS, now),
        "slow": answers.slow(rings, _SLOW, redaction),
        "seconds": answers.seconds(rings)[-_NEW_SECONDS:],
        "incidents": [present_incident(each) for each in incidents[:_INCIDENTS]],
        "remedies": [present_remedy(state, each) for each in state.remedies.standing if each.route == name],
        "apps": [each.name for each in state.crew.policies[route].apps],
        "takes_orders": state.settings.admin_token_file is not None,
    }


def history(state: AdminState, route: int, window: int) -> dict[str, Any]:
    """What was before: of the route as ``/traffic`` says it, and of the busiest keys."""
    rings, redaction = state.crew.rings[route], state.crew.redaction(route)
    return answers.traffic(rings) | {"keys": answers.pasts(rings, window, _KEYS, time.time(), redaction)}


def _keyrail(state: AdminState, route: int) -> dict[str, Any]:
    its = state.crew.figures()[route]
    engine = its.engine
    return {
        "ready": its.ready,
        "reasons": state.readiness().reasons(),
        "workers": state.crew.living,
        "upstream": f"{engine['name']} {engine['version']}" if engine else None,
        "clients": its.gauges.get("clients", 0),
    }


def _policy(state: AdminState, route: int) -> dict[str, Any]:
    """The rules that said most come first; what they said is counted since the start."""
    policy, crew = state.crew.policies[route], state.crew
    hits = {rule: _summed(apps) for rule, apps in crew.figures()[route].counters.get("verdicts", {}).items()}
    ranked = sorted(policy.rules, key=lambda rule: -sum(hits.get(rule.name, {}).values()))
    return {
        "source": policy.source,
        "generation": crew.generation,
        "reload_failures": state.reloader.failures,
        "kill_switch": state.switch.status(),
        "rules": [
            {
                "rule": rule.name,
                "mode": str(voice(policy, rule, None, crew.paused).stage),
                "where": str(rule.where),
                "hits": hits.get(rule.name, {}),
            }
            for rule in ranked[:_RULES]
        ],
        "other_rules": len(ranked[_RULES:]),
    }


def _summed(apps: dict[str, dict[str, int]]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for outcomes in apps.values():
        for outcome, count in outcomes.items():
            summed[outcome] = summed.get(outcome, 0) + count
    return summed
