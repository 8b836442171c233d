"""Requests to the admin port and their answers: of one route, for one view or for all."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from proxy.cli.admin_port import AdminPort, AdminPortError
from proxy.cli.top.views import NODES, RULES, VIEWS, Told, View

_INCIDENTS = 100
_PARAMETERS = {"nodes": frozenset({"route"})}
"""Those of a path that does not take all of its view."""


@dataclass(frozen=True, slots=True)
class Query:
    """``by`` sorts keys, ``window`` is in seconds, ``count`` the most rows; ``route`` None is the first."""

    view: View
    by: str
    window: int
    route: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers, received ``at`` seconds since the epoch; ``info`` is the route's, ``told`` goes by path.

    They always include the answers for the lines above every view, such as the open incidents.
    """

    query: Query
    at: float
    route: str
    routes: tuple[str, ...]
    info: dict[str, Any]
    switch: dict[str, Any]
    seconds: list[dict[str, Any]]
    told: Told

    def open_incidents(self) -> list[dict[str, Any]]:
        """The incidents that are not over."""
        return [each for each in self.told["incidents"]["incidents"] if each["ended"] is None]


def ask(port: AdminPort, query: Query) -> Answers:
    """Ask for one view. Raises AdminPortError."""
    return _ask(port, query, [query.view])


def ask_for_all(port: AdminPort, query: Query) -> Answers:
    """Ask for all views. Raises AdminPortError."""
    return _ask(port, query, VIEWS)


def _ask(port: AdminPort, query: Query, views: Iterable[View]) -> Answers:
    info = port.get("/info")
    routes = {each["route"]: each for each in info["routes"]}
    route = query.route or next(iter(routes))
    if route not in routes:
        raise AdminPortError(f"--route {route}: expected one of {', '.join(routes)}", mistake=True)
    told: Told = {"incidents": port.get("/incidents", route=route, count=_INCIDENTS)}
    given = {"window": query.window, "count": query.count, "route": route, "by": query.by}
    for view in views:
        for path in (path for path in view.paths if path not in told):
            names = view.parameters & _PARAMETERS.get(path, view.parameters)
            told[path] = port.get(f"/{path}", **{name: given[name] for name in names})
    if RULES.paths[0] in told:
        rules = told[RULES.paths[0]]
        told[RULES.paths[0]] = next(each for each in rules["routes"] if each["route"] == route)
    for path in {*NODES.paths} & told.keys():
        told[path] = {"nodes": told[path]["routes"][route]}
    told["local_cache"] = port.get("/local_cache", window=query.window, route=route)
    seconds = port.get("/traffic", route=route)["seconds"]
    return Answers(query, time.time(), route, tuple(routes), routes[route], info["kill_switch"], seconds, told)
