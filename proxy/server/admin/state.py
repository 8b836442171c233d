"""The objects that the admin port's answers come from."""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry

from proxy.net.config.settings import Settings
from proxy.server.evidence.keeper import EvidenceKeeper
from proxy.server.incidents import Incidents
from proxy.server.kill_switch import KillSwitch
from proxy.server.readiness import Readiness
from proxy.server.reload import Reloader
from proxy.server.remedies import Remedies
from proxy.server.violations import Violations
from proxy.server.workers import Workers


@dataclass(frozen=True, slots=True)
class AdminState:
    """The workers behind the answers; ``readiness`` returns why Keyrail is not ready."""

    settings: Settings
    workers: Workers
    registry: CollectorRegistry
    readiness: Callable[[], Readiness]
    reloader: Reloader
    switch: KillSwitch
    incidents: Incidents
    remedies: Remedies
    violations: Violations
    keeper: EvidenceKeeper


STATE = web.AppKey("state", AdminState)
