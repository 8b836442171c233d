"""Why Keyrail is not ready: for its processes, and for each route.

A health check without a route asks whether this Keyrail should get traffic at all. With several routes, one Redis that
is down must not take traffic from the others: ``ReadyWhen.ANY`` is for that.
"""

from dataclasses import dataclass, field

from proxy.net.settings import ReadyWhen


@dataclass(frozen=True, slots=True)
class Readiness:
    """``process`` has the reasons that concern all routes, ``routes`` one for each route that is not ready."""

    process: list[str]
    routes: dict[str, str] = field(default_factory=dict)
    ready_routes: frozenset[str] = frozenset()

    def reasons(self) -> list[str]:
        """All that is not ready."""
        return [*self.process, *self.routes.values()]

    def reasons_against(self, when: ReadyWhen) -> list[str]:
        """Why this Keyrail should get no traffic."""
        enough = when is ReadyWhen.ANY and bool(self.ready_routes)
        return self.process if enough else self.reasons()

    def reasons_of(self, route: str) -> list[str]:
        """Why this route should get no traffic."""
        return [*self.process, *([self.routes[route]] if route in self.routes else [])]
