"""Limits on one key, or a local cache for it, that apply at once and end by themselves.

    GET    /remedies    {"remedies": [{"id", "route", "key", "app", "rate", "local_cache", "since", "until", "because",
                                       "refused", "answered"}],
                         "survive_restart"}
    POST   /remedies    {"key": "product:8841:stock", "app": "checkout", "rate": "5000/s", "for": "30m", "because": "…"}
                        answers with one object as above, and "effect": {"used", "refused", "reads"}
                        {"key": "product:8841", "local_cache": true, "for": "2h", "because": "…"}
                        the same; "rate" is null then, and "app" is not needed
    DELETE /remedies/1  {"undone": 1}

In place of the ``key``, ``incident`` may name one of ``/incidents``. ``app`` is an app of the policy, or ``all``.
``for`` is at most 24h; the default is 30m. ``effect`` is per second, over the last minute: how often the app used the
key, how many of these commands the limit would have refused, and how many only read it. With ``"dry_run": true``
Keyrail only answers with the effect. The answer to a POST or DELETE comes after every worker has followed it.
"""

import time
from dataclasses import dataclass
from math import inf
from typing import Any

from aiohttp import web

from proxy.rules.rates import Rate, parse_rate
from proxy.server.admin.orders import read_body, read_order, read_reason, read_time
from proxy.server.admin.state import STATE, AdminState
from proxy.server.remedies import Remedy, RemedyError
from proxy.traffic.effects import Effect, effect_of
from proxy.traffic.evidence import moment
from proxy.traffic.key_text import named
from proxy.wire.numbers import read_digits

ALL = "all"
_KEYS = ("key", "incident", "route", "app", "rate", "local_cache", "for", "because", "dry_run")


@dataclass(frozen=True, slots=True)
class _RemedyRequest:
    """A request for a remedy; an empty `app` stands for all. Without a `rate` it is a local cache."""

    route: str
    key: bytes
    app: str
    rate: Rate | None
    seconds: float
    because: str
    dry_run: bool


async def remedies(request: web.Request) -> web.Response:
    """Answer with the remedies in force."""
    state = request.app[STATE]
    standing = [present(state, each) for each in state.remedies.standing]
    return web.json_response({"remedies": standing, "survive_restart": state.remedies.survive})


async def add_remedy(request: web.Request) -> web.Response:
    """Add a remedy, or only answer with its effect on the last minute."""
    state = request.app[STATE]
    try:
        order = _read(state, await read_body(request))
    except ValueError as error:
        return web.json_response({"error": str(error)}, status=400)
    now = time.time()
    time_series = state.workers.time_series[_index(state, order.route)]
    rate = inf if order.rate is None else order.rate.tokens / order.rate.seconds
    effect = effect_of(time_series, order.key, order.app, rate, now)
    if order.dry_run:
        return web.json_response({"effect": _effect(effect)})
    try:
        remedy = await state.remedies.add(order.route, order.key, order.app, order.rate, order.seconds, order.because)
    except RemedyError as error:
        return web.json_response({"error": str(error)}, status=409)
    except OSError as error:
        return _not_kept(state, error)
    return web.json_response(present(state, remedy) | {"effect": _effect(effect)})


async def undo_remedy(request: web.Request) -> web.Response:
    """End a remedy."""
    state = request.app[STATE]
    text = request.match_info["number"]
    number = read_digits(text)
    try:
        undone = number is not None and await state.remedies.undo(number)
    except RemedyError as error:
        return web.json_response({"error": str(error)}, status=409)
    except OSError as error:
        return _not_kept(state, error)
    if not undone:
        return web.json_response({"error": f"there is no remedy {text}"}, status=404)
    return web.json_response({"undone": number})


def _not_kept(state: AdminState, error: OSError) -> web.Response:
    text = f"done, but the change will not survive a restart: {error.strerror}: {state.settings.state}"
    return web.json_response({"error": text}, status=500)


def _read(state: AdminState, text: str) -> _RemedyRequest:
    """Read the body of a request. Raises ValueError."""
    asked = read_order(text, _KEYS)
    route, key = _which(state, asked)
    caches = _flag(asked, "local_cache")
    rate = None if caches else parse_rate(str(asked.get("rate", "")))
    if caches and "rate" in asked:
        raise ValueError("expected either a rate or local_cache")
    if rate is None and not caches:
        raise ValueError("rate: expected a number of commands per time, such as 1000/s, 600/m or 50/h")
    app = asked.get("app", ALL if caches else "")
    apps = [each.name for each in state.workers.policies[_index(state, route)].apps]
    if app != ALL and app not in apps:
        raise ValueError(f"app: expected one of {', '.join((ALL, *apps))}, got {app!r}")
    because = read_reason(asked)
    if not because:
        raise ValueError("because: expected a reason, such as an incident's number")
    dry_run = _flag(asked, "dry_run")
    return _RemedyRequest(route, key, "" if app == ALL else app, rate, read_time(asked), because, dry_run)


def _flag(asked: dict[str, Any], name: str) -> bool:
    flag = asked.get(name, False)
    if not isinstance(flag, bool):
        raise ValueError(f"{name}: expected true or false")
    return flag


def _which(state: AdminState, asked: dict[str, Any]) -> tuple[str, bytes]:
    """The route and the key of a request. Raises ValueError."""
    if ("key" in asked) == ("incident" in asked):
        raise ValueError("expected either a key or an incident")
    if "incident" in asked:
        incident = state.incidents.named(str(asked["incident"]))
        if incident is None or not incident.key:
            raise ValueError(f"incident: Keyrail no longer knows the key of {asked['incident']!r}: give the key")
        return incident.route, incident.key
    routes = [route.name for route in state.settings.routes]
    route = asked.get("route", routes[0] if len(routes) == 1 else None)
    if route not in routes:
        raise ValueError(f"route: expected one of {', '.join(routes)}")
    key = asked["key"]
    if not isinstance(key, str) or not key:
        raise ValueError("key: expected a key in the form that /hotkeys shows")
    return route, named(key)


def _index(state: AdminState, route: str) -> int:
    return [each.name for each in state.settings.routes].index(route)


def present(state: AdminState, remedy: Remedy) -> dict[str, Any]:
    """One remedy as an object of the answers."""
    index = _index(state, remedy.route)
    verdicts = state.workers.figures()[index].counters.get("verdicts", {}).get(remedy.name, {})
    applied = sum(number for counts in verdicts.values() for number in counts.values())
    return {
        "id": remedy.number,
        "route": remedy.route,
        "key": state.workers.redaction(index).of(remedy.key),
        "app": remedy.app or ALL,
        "rate": None if remedy.rate is None else str(remedy.rate),
        "local_cache": remedy.rate is None,
        "since": moment(remedy.since),
        "until": moment(remedy.until),
        "because": remedy.because,
        "refused": 0 if remedy.rate is None else applied,
        "answered": applied if remedy.rate is None else 0,
    }


def _effect(effect: Effect) -> dict[str, float]:
    return {"used": round(effect.used, 1), "refused": round(effect.refused, 1), "reads": round(effect.reads, 1)}
