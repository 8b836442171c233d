"""What a worker tells the supervisor: the figures of its routes, what rules found, scripts, servers and traffic."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from proxy.net.connection.periodic import Periodic
from proxy.net.route.route import Route
from proxy.net.topology.known_scripts import ScriptNews
from proxy.net.topology.topology import KnownServer
from proxy.rules.shared_state import Stored
from proxy.server.control import FindStored, News, SeenScripts, SeenServers, TrafficReport, WorkerReport
from proxy.server.process_figures import figures_of_this_process
from proxy.server.requests import Channel, RequestError, outcome

REPORT_SECONDS = 0.8
"""Seconds between reports, so that the supervisor's figures are never older than a second.

A second of traffic is reported as soon as it is over: at the next report it would be nearly two seconds old.
"""


class WorkerReports:
    """The reports of one worker about these ``routes``. The supervisor knows of ``servers`` already. ``checks`` are
    made before each report; ``count`` counts an event."""

    def __init__(
        self,
        channel: Channel,
        routes: Sequence[Route],
        servers: Sequence[Sequence[KnownServer]],
        checks: Mapping[str, Callable[[], object]],
        count: Callable[[str], None],
    ) -> None:
        self._channel = channel
        self._routes = routes
        self._servers = servers
        self._reported = time.monotonic()
        reports = {
            "asking what is stored": self._find_stored,
            "reporting figures": self._figures,
            "reporting what rules found": self._news,
            "telling of scripts": self._scripts,
            "telling of servers": self._new_servers,
            "reporting seconds": self.traffic,
        }
        self._periodic = Periodic(asyncio.get_running_loop(), REPORT_SECONDS, {**checks, **reports}, count)

    def now(self) -> None:
        """Report now, and from then on periodically."""
        self._periodic.end()
        self._periodic.turn()

    def end(self) -> None:
        """Report no more."""
        self._periodic.end()

    def traffic(self) -> None:
        """Report the seconds that are over."""
        traffic = tuple(route.intervals() for route in self._routes)
        if any(traffic):
            self._channel.notify(TrafficReport(traffic))

    def _find_stored(self) -> None:
        written = tuple(route.rule_state.written() for route in self._routes)
        if any(written):
            self._channel.request(FindStored(written)).add_done_callback(self._learn_stored)

    def _learn_stored(self, told: "asyncio.Future[tuple[Mapping[str, Stored], ...]]") -> None:
        routes = outcome(told)
        if not isinstance(routes, RequestError):
            for route, stored in zip(self._routes, routes, strict=True):
                route.rule_state.learn_stored(stored)

    def _figures(self) -> None:
        now = time.monotonic()
        lag, self._reported = now - self._reported - REPORT_SECONDS, now
        snapshots = tuple(route.snapshot() for route in self._routes)
        self._channel.notify(WorkerReport(snapshots, figures_of_this_process(lag)))

    def _news(self) -> None:
        self._channel.notify(News(tuple(route.verdict_update() for route in self._routes)))

    def _scripts(self) -> None:
        news = tuple(route.scripts.news() for route in self._routes)
        if any(each != ScriptNews() for each in news):
            self._channel.notify(SeenScripts(news))

    def _new_servers(self) -> None:
        servers = tuple(route.topology.servers for route in self._routes)
        if servers != self._servers:
            self._servers = servers
            self._channel.notify(SeenServers(servers))
