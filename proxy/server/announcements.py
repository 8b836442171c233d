"""Announces that Keyrail is ready, its addresses, each change of a route's readiness, and the features that are off."""

from collections.abc import Sequence

from proxy.build_form import BUILD_FORM, SLOWER, is_plain_installation
from proxy.net.config.address import ListenAddress
from proxy.net.config.settings import Embedded, RouteSettings
from proxy.net.connection.lacking import is_gap
from proxy.server import exposure
from proxy.server.admin.port import AdminServer
from proxy.server.figures import RouteFigures
from proxy.server.node_changes import Nodes, changes
from proxy.server.notices import Level, notice
from proxy.server.workers import Workers

_EMBEDDED: dict[Embedded | None, str] = {
    Embedded.SINGLE: "embedded Valkey ({})",
    Embedded.CLUSTER: "embedded Valkey cluster ({})",
}


class Announcements:
    """The ready line of one run, and then each change of a route's readiness."""

    def __init__(self) -> None:
        self._ready: dict[str, bool] = {}
        self._nodes: dict[str, Nodes] = {}
        self._features_off: dict[str, Sequence[str]] = {}

    def ready(
        self,
        routes: Sequence[tuple[RouteSettings, Sequence[ListenAddress]]],
        workers: Workers,
        admin: AdminServer | None,
        limits: str,
    ) -> None:
        """Announce that Keyrail serves these routes on these addresses, and its limits."""
        figures = workers.figures()
        shown = []
        for (route, addresses), its in zip(routes, figures, strict=True):
            listeners = ", ".join(map(str, addresses))
            upstream = _EMBEDDED.get(route.embedded, "{}").format(route.upstream)
            reason = its.reason.removeprefix(f"{route.upstream}: ") or "no answer"
            down = "" if its.ready else f" (down, {reason})"
            shown.append(f"{listeners} -> {upstream}{down} policy {route.policy} generation {workers.generation}")
            self._ready[route.name] = its.ready
        serving = f"{workers.living} worker{'s' if workers.living > 1 else ''}"
        at = "" if admin is None else f"; admin {admin.url}"
        notice(f"ready on {'; '.join(shown)}; {serving}, {BUILD_FORM}{at}")
        notice(limits)
        if is_plain_installation():
            notice(SLOWER)
        if admin is not None and admin.closed:
            notice(
                "the admin port is not on loopback; without --admin-token-file it shows no keys and takes no orders",
                Level.WARNING,
            )
        for route, _ in routes:
            for warning in exposure.warnings(route):
                notice(warning, Level.WARNING)
        for its in figures:
            self._say_features(its)
            self._say_nodes(its)

    def changes(self, workers: Workers) -> None:
        """Announce each upstream that has gone or come back, and each feature that is off since the last call."""
        if not self._ready or not workers.complete:
            return
        for its in workers.figures():
            self._say_nodes(its)
            if its.ready == self._ready[its.name]:
                self._say_features(its)
                continue
            self._ready[its.name] = its.ready
            if its.ready:
                engine = f" ({its.engine['name']} {its.engine['version']})" if its.engine else ""
                notice(f"route {its.name}: the upstream answers{engine}")
                self._features_off.pop(its.name, None)
                self._say_features(its)
            else:
                notice(f"route {its.name}: not ready: {its.reason}", Level.ERROR)

    def _say_nodes(self, its: RouteFigures) -> None:
        for text, level in changes(self._nodes.get(its.name, ()), its.nodes):
            notice(f"route {its.name}: {text}", level)
        self._nodes[its.name] = its.nodes

    def _say_features(self, its: RouteFigures) -> None:
        known = self._features_off.get(its.name, ())
        for feature in its.features_off:
            if feature not in known:
                notice(f"route {its.name}: {feature}", Level.WARNING if is_gap(feature) else Level.INFO)
        self._features_off[its.name] = its.features_off
