"""The reasons why Keyrail is not ready: of its processes, and of each route.

A health check without a route asks whether this Keyrail should get traffic at all. If one Redis of several routes is
down, ``ReadyWhen.ANY`` keeps the traffic for the other routes.
"""

from dataclasses import dataclass, field

from proxy.net.config.settings import ReadyWhen


@dataclass(frozen=True, slots=True)
class Readiness:
    """``process`` has the reasons for all routes, ``routes`` one for each route that is not ready. ``warnings`` are
    about routes that are.
    """

    process: list[str]
    routes: dict[str, str] = field(default_factory=dict)
    ready_routes: frozenset[str] = frozenset()
    warnings: dict[str, str] = field(default_factory=dict)

    def reasons(self) -> list[str]:
        """All reasons."""
        return [*self.process, *self.routes.values()]

    def reasons_against(self, when: ReadyWhen) -> list[str]:
        """Why this Keyrail should get no traffic."""
        enough = when is ReadyWhen.ANY and bool(self.ready_routes)
        return self.process if enough else self.reasons()

    def reasons_of(self, route: str) -> list[str]:
        """Why this route should get no traffic."""
        return [*self.process, *([self.routes[route]] if route in self.routes else [])]

    def warnings_of(self, route: str | None) -> list[str]:
        """What is not as it should be, although this route, or each of these, is ready."""
        return [text for name, text in self.warnings.items() if route in (None, name)]
