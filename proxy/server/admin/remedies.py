"""Limits on one key, a local cache for it, or limits on a client, an app or a command, that apply at once and end by
themselves.

    GET    /remedies    {"remedies": [{"id", "route", "action", "key", "tenant", "client", "command", "app", "rate",
                                       "local_cache", "since", "until", "because", "refused", "answered"}],
                         "survive_restart"}
    POST   /remedies    {"key": "product:8841:stock", "app": "checkout", "rate": "5000/s", "for": "30m", "because": "…"}
                        answers with one object as above, and "effect": {"used", "refused", "reads"}
                        {"key": "product:8841", "local_cache": true, "for": "2h", "because": "…"}
                        the same; "rate" is null then, and "app" is not needed
                        {"client": "c3f9a1b27", "command": "KEYS", "app": "checkout", "refuse": true, "because": "…"}
                        the same for commands: at least one of "client", "command" and "app", and one of "refuse",
                        "close" and "rate"; "key" is null then, and "effect" if it is about one command
    DELETE /remedies/1  {"undone": 1}

In place of the ``key``, ``incident`` may name one of ``/incidents``. ``app`` is an app of the policy, or ``all``.
``client`` is an ``id`` of ``/clients``, of the last hour. ``action`` is cap, cache, refuse or close.
``for`` is at most 24h; the default is 30m. ``effect`` is per second, over the last minute: how often the app used the
key, how many of these commands the limit would have refused, and how many only read it. With ``"dry_run": true``
Keyrail only answers with the effect. The answer to a POST or DELETE comes after every worker has followed it.
"""

import time
from dataclasses import dataclass
from math import inf
from typing import Any

from aiohttp import web

from proxy.commands.table import STANDARD
from proxy.policy.model import Policy
from proxy.policy.tenants import StoredNames
from proxy.rules.listing import entry_of
from proxy.rules.rates import Rate, parse_rate
from proxy.server.admin.orders import read_body, read_order, read_reason, read_time
from proxy.server.admin.state import STATE, AdminState
from proxy.server.remedies import ANY, Remedy, RemedyError, Target
from proxy.traffic.client_ids import id_of, name_of
from proxy.traffic.client_ids import named as named_client
from proxy.traffic.effects import Effect, effect_of, effect_on_clients
from proxy.traffic.key_text import named
from proxy.traffic.labels import Client, moment
from proxy.wire.numbers import read_digits

ALL = "all"
_KEYS = (
    *("key", "incident", "route", "app", "rate", "local_cache", "for", "because", "dry_run"),
    *("client", "command", "refuse", "close"),
)
_TARGETS = frozenset({"client", "command"})
_TRAFFIC = _TARGETS | {"refuse", "close"}


@dataclass(frozen=True, slots=True)
class _RemedyRequest:
    """A request for a remedy; an empty `app` stands for all. Without a `rate` it is a local cache, or without a `key`
    a refusal."""

    route: str
    key: bytes
    app: str
    rate: Rate | None
    seconds: float
    because: str
    dry_run: bool
    target: Target = ANY

    def concerns(self, client: Client) -> bool:
        """Whether it is about this client, if it is not about a key."""
        return self.target.client in (None, name_of(client)) and self.app in ("", client[0])


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
    effect = _effect_of(state, order, time.time())
    if order.dry_run:
        return web.json_response({"effect": effect})
    wanted = (order.route, order.key, order.app, order.rate, order.seconds, order.because, order.target)
    try:
        remedy = await state.remedies.add(*wanted)
    except RemedyError as error:
        return web.json_response({"error": str(error)}, status=409)
    except OSError as error:
        return _not_kept(state, error)
    return web.json_response(present(state, remedy) | {"effect": effect})


def _effect_of(state: AdminState, order: _RemedyRequest, now: float) -> dict[str, float] | None:
    """The effect of the last minute; None for one command, since figures do not tell how often each runs."""
    time_series = state.workers.time_series[_index(state, order.route)]
    rate = inf if order.rate is None else order.rate.tokens / order.rate.seconds
    if order.key:
        return _effect(effect_of(time_series, order.key, order.app, rate, now))
    least = 0.0 if order.rate is None else rate
    return None if order.target.command else _effect(effect_on_clients(time_series, order.concerns, least, now))


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
    text = f"done, but the change will not survive a restart: {error.strerror}: {state.settings.state_dir}"
    return web.json_response({"error": text}, status=500)


def _read(state: AdminState, text: str) -> _RemedyRequest:
    """Read the body of a request. Raises ValueError."""
    asked = read_order(text, _KEYS)
    if "key" not in asked and ("incident" not in asked or _TARGETS & asked.keys()):
        return _read_traffic(state, asked)
    if _TRAFFIC & asked.keys():
        raise ValueError("expected either a key, or a client, an app or a command to refuse, close or cap")
    route, key = _which(state, asked)
    caches = _flag(asked, "local_cache")
    rate = None if caches else parse_rate(str(asked.get("rate", "")))
    if caches and "rate" in asked:
        raise ValueError("expected either a rate or local_cache")
    if rate is None and not caches:
        raise ValueError("rate: expected a number of commands per time, such as 1000/s, 600/m or 50/h")
    app = _app_of_key(state.workers.policies[_index(state, route)], key, asked.get("app", ALL if caches else ""))
    return _RemedyRequest(route, key, app, rate, read_time(asked), _because(asked), _flag(asked, "dry_run"))


def _app_of_key(policy: Policy, key: bytes, app: Any) -> str:
    """The app whose clients a remedy for a key is about, "" for all. Raises ValueError for an app that is not in the
    policy, or is a tenant that has no name for the key."""
    names = StoredNames(policy.tenants)
    able = [each.name for each in policy.apps if names.can_name(each.name, key)]
    if app == ALL or app in able:
        return "" if app == ALL else str(app)
    own = names.own(key)
    whose = "no tenant" if own is None else f"the tenant {own.app}" if own.app else "another tenant"
    why = f": the key is of {whose}" if isinstance(app, str) and app in policy.tenants.apps else ""
    raise ValueError(f"app: expected one of {', '.join((ALL, *able))}, got {app!r}{why}")


def _read_traffic(state: AdminState, asked: dict[str, Any]) -> _RemedyRequest:
    """Read a request that is about a client, an app or a command. Raises ValueError."""
    route = _route(state, asked)
    index = _index(state, route)
    app = asked.get("app", ALL)
    apps = [each.name for each in state.workers.policies[index].apps]
    if app != ALL and app not in apps:
        raise ValueError(f"app: expected one of {', '.join((ALL, *apps))}, got {app!r}")
    command = " ".join(str(asked.get("command", "")).upper().split())
    if command and STANDARD.find(entry_of(command, STANDARD).command) is None and "." not in command:
        raise ValueError(f"command: expected a command, such as KEYS or CONFIG SET, got {command!r}")
    client = None
    if "client" in asked:
        client = named_client(state.workers.time_series[index], str(asked["client"]), time.time())
        if client is None:
            raise ValueError(f"client: expected an id that /clients shows for the last hour, got {asked['client']!r}")
    if client is None and not command and app == ALL:
        raise ValueError("expected a key, an incident, a client, an app or a command")
    refuses, closes = _flag(asked, "refuse"), _flag(asked, "close")
    rate = parse_rate(str(asked["rate"])) if "rate" in asked else None
    if "rate" in asked and rate is None:
        raise ValueError("rate: expected a number of commands per time, such as 1000/s, 600/m or 50/h")
    if refuses + closes + (rate is not None) != 1 or "local_cache" in asked or "incident" in asked:
        raise ValueError("expected one of refuse, close and rate for a client, an app or a command")
    because, dry_run, target = _because(asked), _flag(asked, "dry_run"), Target(client, command, closes)
    return _RemedyRequest(route, b"", "" if app == ALL else app, rate, read_time(asked), because, dry_run, target)


def _because(asked: dict[str, Any]) -> str:
    because = read_reason(asked)
    if not because:
        raise ValueError("because: expected a reason, such as an incident's number")
    return because


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
    route = _route(state, asked)
    key = asked["key"]
    if not isinstance(key, str) or not key:
        raise ValueError("key: expected a key in the form that /hotkeys shows")
    return route, named(key)


def _route(state: AdminState, asked: dict[str, Any]) -> str:
    routes = [route.name for route in state.settings.routes]
    route = asked.get("route", routes[0] if len(routes) == 1 else None)
    if route not in routes:
        raise ValueError(f"route: expected one of {', '.join(routes)}")
    return str(route)


def _index(state: AdminState, route: str) -> int:
    return [each.name for each in state.settings.routes].index(route)


def present(state: AdminState, remedy: Remedy) -> dict[str, Any]:
    """One remedy as an object of the answers."""
    index = _index(state, remedy.route)
    names = state.workers.redaction(index)
    verdicts = state.workers.figures()[index].counters.get("verdicts", {}).get(remedy.name, {})
    applied = sum(number for counts in verdicts.values() for number in counts.values())
    return {
        "id": remedy.number,
        "route": remedy.route,
        "action": remedy.action,
        "key": names.of(remedy.key) if remedy.key else None,
        **names.beside(remedy.key),
        "client": None if remedy.target.client is None else id_of(remedy.target.client),
        "command": remedy.target.command or None,
        "app": remedy.app or ALL,
        "rate": None if remedy.rate is None else str(remedy.rate),
        "local_cache": remedy.action == "cache",
        "since": moment(remedy.since),
        "until": moment(remedy.until),
        "because": remedy.because,
        "refused": 0 if remedy.action == "cache" else applied,
        "answered": applied if remedy.action == "cache" else 0,
    }


def _effect(effect: Effect) -> dict[str, float]:
    return {"used": round(effect.used, 1), "refused": round(effect.refused, 1), "reads": round(effect.reads, 1)}
